"""From logs, and from plain tables and topologies, to a trace.

On the way of a log, module by module:

    options, files           how logs are read; files are found and opened
    sources, growth          a file as a Source, with what its first bytes settle; copies, and what is new of it
    source                   logs as a Spark data source, which reads splits in tasks: bytes to EVENT
      lines, formats/        blocks of bytes as lines, lines as events of a format
      rows                   rows of CSV, JSON, Parquet and frames as events: fields, values, members, content
      fragments              events as EVENT (job), names as hashes: columns; who receives by content: receivers
    frames                   rows of a user's own frame as EVENT
    stages                   EVENT to messages, traffic, audiences and names, from DataFrame to DataFrame
    history, bridges         sessions, subscriptions and links; messages that crossed bridges
    merge                    what of the trace is made anew, written beside what is there
    accounts, notes          what became of every line; what a user should know
    run                      the story: events are written once, tables are made of them, a manifest makes them count

The other door, for small files: `tables` merges tables and topologies (table_rows, table_merging;
topologies/, wiring); delays are those between clients.
"""
