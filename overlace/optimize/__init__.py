"""The main job: task, forecast, plan, metrics, verdict, result (`job` walks through them), and drift from a plan."""
