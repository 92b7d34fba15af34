"""All commands."""

from __future__ import annotations

import typer

from overlace.cli import about, live, logs, main_job, peek, pipeline, plans, show, trees
from overlace.cli.console import example
from overlace.cli.running import new_app, run_app

app = new_app()
app.command("demo", epilog=example("overlace demo --out demo-run"))(pipeline.demo_command)
app.add_typer(pipeline.workloads, name="generate")
app.command("peek", epilog=peek.EPILOG)(peek.peek_command)
app.command("ingest", epilog=example("overlace ingest logs/ --out trace"))(logs.ingest_command)
app.command("show", epilog=example("overlace show trace links --rows 5"))(show.show_command)
app.command("observe", epilog=example("overlace observe trace --out run"))(pipeline.observe_command)
app.add_typer(plans.solvers, name="solve")
app.add_typer(plans.plans, name="plan")
app.command("replay", epilog=example("overlace replay run"))(pipeline.replay_command)
app.command("report", epilog=example("overlace report run"))(pipeline.report_command)
app.command("optimize", epilog=example("overlace optimize trace --out run --budget 40"))(main_job.optimize_command)
app.command("drift", epilog=example("overlace drift run newer-trace"))(main_job.drift_command)
app.command("trees", epilog=example("overlace trees delays.csv --bounds 100 --degrees 3 --root hub"))(
    trees.trees_command
)
app.add_typer(live.live, name="live")
app.command("planners", epilog=example("overlace planners tree"))(plans.planners_command)
app.command("metrics", epilog=example("overlace metrics hops"))(about.metrics_command)
app.command("schema", epilog=example("overlace schema plan"))(about.schema_command)
app.command("doctor", epilog=example("overlace doctor --master 'local[2]'"))(about.doctor_command)


def run(words: list[str], commands: typer.Typer = app, name: str = "overlace") -> int:
    """Run a command; its exit code."""
    return run_app(words, commands, name)
