"""Running broker networks: what they carry, and the files that would change them.

deployment      the network file: brokers, addresses, credentials by reference
client          the wrapper that applications use; stands alone
adapter         what every kind of network can do: nats and mosquitto
nats_files, mosquitto_files   configuration as text
files           our files of a deployment: written whole, difference, undo
record          a running network to a trace: counted, traced or estimated
counters        flows estimated from servers' counters; ledger, origins and fit are its steps
planned, subscribed   a plan by name, and what is subscribed where with it
filters         what crosses each bridge
export          a plan to files: targets (what is written), maps (of clients), addresses (without a network file)
apply           a plan carried out: swap (phases and their order), journal (what was meant and how far it came)
deploying       files brought to brokers
local, delay    a network on this machine, latency for its links
traffic         a seeded load; scenario: who talks about what; tally: what came of it
"""
