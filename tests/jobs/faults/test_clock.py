"""The clock of the fault matrix."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from tests.jobs.faults.clock import Clock


def test_waiting_takes_no_time_and_advances_the_clock_of_the_commands_threads():
    clock, began = Clock(), time.perf_counter()
    with clock.patched():
        time.sleep(3600)
        assert time.monotonic() == 3600
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(time.monotonic).result() == 3600
    assert time.perf_counter() - began < 60


def test_a_server_that_ran_before_goes_on_by_the_real_time():
    ticks = [0]
    ended = threading.Event()

    async def serve():
        while not ended.is_set():
            await asyncio.sleep(0.01)
            ticks[0] += 1

    def ticks_again():
        before, until = ticks[0], time.perf_counter() + 30
        while ticks[0] < before + 2:
            assert time.perf_counter() < until
            ended.wait(0.01)

    server = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    server.start()
    ticks_again()
    clock = Clock()
    with clock.patched():
        time.sleep(86_400)
        ticks_again()
    ticks_again()
    ended.set()
    server.join(30)
    assert not server.is_alive()
