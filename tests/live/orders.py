"""Who gives orders in tests: the control user, in one colour at one broker."""

import asyncio
import json
import secrets

from overlace.live.client import client_address, connect_nats, hash_name, mqtt_client, nats_options, read_network
from tests.live.servers import until


class Control:
    """Gives orders and collects answers. Use it as `async with Control(network, broker, colour)`."""

    def __init__(self, network, broker, colour=0):
        self.network, self.broker, self.colour = read_network(network), broker, colour
        self.answers = {}
        self.left = []

    @property
    def address(self):
        return client_address(self.network, self.broker, self.colour)

    async def __aenter__(self):
        if self.network["substrate"] == "nats":
            options = nats_options(self.network, "control", self.colour)
            self.nats = await connect_nats(self.address, "control", **options)
            await self.nats.subscribe("_OVERLACE.left", cb=self._noted)
            await self.nats.flush()
        else:
            self.loop, self.acks = asyncio.get_running_loop(), []
            self.mqtt = mqtt_client(self.network, "control", f"control-{secrets.token_hex(4)}")
            self.mqtt.on_message = lambda client, data, message: self.loop.call_soon_threadsafe(self._got, message)
            self.mqtt.on_subscribe = lambda client, data, mid, *_: self.acks.append(mid)
            host, port = self.address.split(":")
            await asyncio.to_thread(self.mqtt.connect, host, int(port))
            self.mqtt.loop_start()
            await until(self.mqtt.is_connected)
            await self._subscribe("$overlace/answers/#")
            await self._subscribe("$overlace/left")
        return self

    async def __aexit__(self, *_):
        if self.network["substrate"] == "nats":
            await self.nats.close()
        else:
            self.mqtt.disconnect()
            await asyncio.to_thread(self.mqtt.loop_stop)
            self.mqtt.on_message = self.mqtt.on_subscribe = None

    async def _subscribe(self, topic):
        mid = self.mqtt.subscribe(topic, 1)[1]
        await until(lambda: mid in self.acks)

    async def _noted(self, message):
        self.left.append(json.loads(message.data))

    def _got(self, message):
        answer = json.loads(message.payload)
        if message.topic == "$overlace/left":
            self.left.append(answer)
        else:
            self.answers.setdefault(message.topic, []).append(answer)

    async def tell(self, name, **order):
        """An order to one client, and its answer; parts are put together."""
        hashed = hash_name(name)
        if self.network["substrate"] == "nats":
            inbox = self.nats.new_inbox()
            parts = self.answers[inbox] = []

            async def order_again():
                await self.nats.publish(f"_OVERLACE.ctl.{hashed}", json.dumps(order).encode(), reply=inbox)

            async def got(message):
                if message.data:
                    parts.append(json.loads(message.data))
                else:  # this broker does not know the client's filter yet
                    await asyncio.sleep(0.01)
                    await order_again()

            found = await self.nats.subscribe(inbox, cb=got)
            await order_again()
            await until(lambda: parts and len(parts) >= parts[0]["parts"], f"{name} answers {order}")
            await found.unsubscribe()
        else:
            token = f"$overlace/answers/{secrets.token_hex(6)}"
            parts = self.answers[token] = []
            self.mqtt.publish(f"$overlace/ctl/{hashed}", json.dumps({**order, "reply": token}), 1)
            await until(lambda: parts and len(parts) >= parts[0]["parts"], f"{name} answers {order}")
        return joined(parts)

    async def tell_all(self, names, **order):
        return dict(zip(names, await asyncio.gather(*(self.tell(name, **order) for name in names)), strict=True))


def joined(parts):
    """The parts of an answer as one."""
    whole = dict(parts[0])
    for part in parts[1:]:
        whole["filters"] = whole["filters"] + part["filters"]
        whole["counts"] = {**whole.get("counts", {}), **part.get("counts", {})}
    return whole
