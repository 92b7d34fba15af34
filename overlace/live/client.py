"""The wrapper around nats-py and paho that applications use; stands alone."""
