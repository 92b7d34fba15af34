"""Real Mosquitto brokers on loopback, and clients that remember what they got."""

import getpass
import shutil
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.live.servers import free_port

MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
PATIENCE = 20  # seconds


def wait_until(condition, what):
    """Poll until a condition holds; fail with what was awaited."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {PATIENCE} s")
        time.sleep(0.01)


class Broker:
    """A Mosquitto with `log_type all` to a file."""

    def __init__(self, folder: Path, name: str, settings: str = ""):
        self.name, self.port, self.log = name, free_port(), folder / f"{name}.log"
        conf = folder / f"{name}.conf"
        conf.write_text(
            f"user {getpass.getuser()}\nlistener {self.port} 127.0.0.1\nallow_anonymous true\n"
            f"log_type all\nlog_dest file {self.log}\n{settings}\n"
        )
        self.process = subprocess.Popen([MOSQUITTO, "-c", conf], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.clients = []

    def listens(self):
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
            return True
        return False

    def text(self):
        return self.log.read_text() if self.log.exists() else ""

    def client(self, name, *filters, **options):
        """A connected client that is subscribed to (filter, qos) pairs."""
        client = Client(self, name, **options)
        self.clients.append(client)
        client.connect()
        client.subscribe(*filters)
        return client

    def settled(self):
        """All that clients published has arrived, they have all that was sent to them, and nothing is in flight.

        So nothing waits either: Mosquitto sends what waits as soon as something in flight is acknowledged.
        """
        text = self.text()
        for client in self.clients:
            if text.count(f"Received PUBLISH from {client.name} (d0") != len(client.sent):
                return False
            sent = text.count(f"Sending PUBLISH to {client.name} (")
            at_zero = text.count(f"Sending PUBLISH to {client.name} (d0, q0")
            acks = (text.count(f"Received {ack} from {client.name} (") for ack in ("PUBACK", "PUBCOMP"))
            if client.here and (sent != len(client.got) or sent - at_zero != sum(acks)):
                return False
        return all(client.published() for client in self.clients)

    def stop(self):
        """Say goodbye for the clients that are left, then end the broker."""
        for client in self.clients:
            client.leave()
        self.end()

    def end(self):
        """End the process, by its id."""
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Client:
    """A paho client; `got` holds the payloads that it received."""

    def __init__(self, broker, name, durable=False, v5=False, will=None, user=None, at_once=None):
        self.broker, self.name, self.durable, self.v5, self.will, self.user = broker, name, durable, v5, will, user
        self.at_once = at_once  # how many it publishes before it waits; None: as paho does
        self.got, self.here, self.acks, self.sent = [], False, 0, []

    def connect(self):
        kept = {} if self.v5 else {"clean_session": not self.durable}
        version = mqtt.MQTTv5 if self.v5 else mqtt.MQTTv311
        self.mqtt = mqtt.Client(CallbackAPIVersion.VERSION2, self.name, protocol=version, **kept)
        self.mqtt.on_message = lambda client, data, message: self.got.append(message.payload)
        self.mqtt.on_subscribe = self._acked
        if self.will:
            self.mqtt.will_set(*self.will)
        if self.user:
            self.mqtt.username_pw_set(self.user)
        if self.at_once is not None:
            self.mqtt.max_inflight_messages_set(self.at_once)
        self.mqtt.connect("127.0.0.1", self.broker.port, **(self._lasting() if self.v5 else {}))
        self.mqtt.loop_start()
        wait_until(self.mqtt.is_connected, f"{self.name} connects")
        self.here = True

    def _lasting(self):
        """An MQTT 5 session that outlives its connection, or does not."""
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = 3600 if self.durable else 0
        return {"clean_start": not self.durable, "properties": properties}

    def _acked(self, *_):
        self.acks += 1

    def subscribe(self, *filters):
        for each in filters:
            before = self.acks
            self.mqtt.subscribe(*each)
            wait_until(lambda before=before: self.acks > before, f"{self.name} subscribes")

    def publish(self, topic, payload, qos=0, retain=False):
        self.sent.append(self.mqtt.publish(topic, payload, qos, retain))
        return self.sent[-1]

    def published(self):
        return all(each.is_published() for each in self.sent)

    def leave(self):
        if self.here:
            self.here = False
            self.mqtt.disconnect()
            self.mqtt.loop_stop()

    def die(self):
        """Break off without a goodbye."""
        self.here = False
        self.mqtt.loop_stop()
        self.mqtt.socket().shutdown(socket.SHUT_RDWR)
        said = f"Client {self.name} closed its connection."
        wait_until(lambda: said in self.broker.text(), f"the broker notices that {self.name} died")
