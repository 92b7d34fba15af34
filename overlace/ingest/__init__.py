"""From the lines of logs, and from plain tables and topologies, to a trace.

A log line on its way, module by module:

    options     how the user wants logs read
    files       finds, opens and unpacks files
    sources     a file as a Source: its format, what its first bytes settle for all of it, how it is read
    copies      leaves out files whose content another one holds
    growth      what of the sources is new since the trace was written
    tails       the end of a source, where messages may go on: it is read again with what was added
    splits      cuts sources into splits, splits into tasks
    run         the story: a first job reads, the driver numbers names, a second job writes, a manifest makes it count
    tasks       what the jobs do, split by split, in Spark's workers or in a list
      lines     blocks of bytes as lines                                            bytes, first, last: TextLines
      content   what messages say, as further columns of events
      formats/  lines as events; fields says which column is which, cells reads it  spans, then batches of EVENT
      events    EVENT, which every format yields, and Format
      encode    the events of a split as messages, names met, lines counted, in this order:
        coded     names as codes                                                    columns of numbers: Events
        identity  who is one client; pseudonyms
        receivers who receives by content
        keys      which rows are one message
        messages  rows of one key as one message                                    Messages, under codes
      staging   what tasks answer, and what they leave for the next job             Arrow files; then Messages under ids
      message_files  messages under ids, by day                                     rows of `messages`
      reduce    messages summed up by bucket, client, topic and audience            rows of `traffic`

What the driver makes of it:

    accounts    what became of every line; too many bad ones are refused
    bridges     messages that crossed bridges, followed from log to log
    sums        the second job, and the tables traffic and audiences
    history     sessions, subscriptions and double sends, from events that are no messages
    links       links that the logs show
    notes       what the trace keeps of each source for the next time, and warnings

The other door, for small files:

    tables      merges tables and topologies into a trace: table_files reads, table_rows gives ids, table_merging merges
    topologies/ broker configurations and graphs as brokers and links
    wiring      which links of a topology are wired
"""
