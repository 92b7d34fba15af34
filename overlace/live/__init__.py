"""Running broker networks: what they carry, and the files that would change them.

deployment      the network file: brokers, addresses, credentials by reference
client          the wrapper that applications use; stands alone
adapter         what every kind of network can do: nats, mosquitto, and memory in this process
nats_files, mosquitto_files   configuration as text
files           our files of a deployment: written whole, difference, undo
record          a running network to a trace: counted, traced or estimated
export          a plan to configuration files
local, delay    a network on this machine, latency for its links
traffic         a seeded load; scenario: who talks about what; tally: what came of it
"""
