"""Messages between the driver and rank 0."""

import pickle
import signal

from trainer.extras.spark.messages import Mailbox


def copy(mailbox):
    """The environment of a task on an executor."""
    return pickle.loads(pickle.dumps(mailbox))


def test_every_stop_request_arrives_once(tmp_path):
    driver = Mailbox(tmp_path)
    task = copy(driver)
    assert task.new_stops() == []
    driver.send_stop(signal.SIGTERM)
    assert task.new_stops() == [signal.SIGTERM]
    assert task.new_stops() == []
    driver.send_stop(signal.SIGTERM)
    assert task.new_stops() == [signal.SIGTERM]


def test_output_arrives_in_its_order_and_leaves_nothing(tmp_path):
    driver = Mailbox(tmp_path)
    task = copy(driver)
    for number in range(12):
        task.send_text(f"step {number}\n")
    assert driver.take_texts() == [f"step {number}\n" for number in range(12)]
    assert driver.take_texts() == []
    assert list(tmp_path.iterdir()) == []


def test_another_attempt_reads_nothing_of_it(tmp_path):
    one, other = Mailbox(tmp_path), Mailbox(tmp_path)
    one.send_stop(signal.SIGINT)
    one.send_text("step 5\n")
    assert other.new_stops() == other.take_texts() == []
    one.clear()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_fails_costs_the_output_and_nothing_else(tmp_path):
    gone = Mailbox(tmp_path / "file" / "folder")
    (tmp_path / "file").touch()
    gone.send_text("step 5\n")
    assert gone.take_texts() == gone.new_stops() == []
