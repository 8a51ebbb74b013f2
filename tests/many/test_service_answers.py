"""What a worker of the service answers, without Ray: an answer that takes too long, and one that comes in time."""

import asyncio
import io
import json
import time

import numpy as np
import pytest
from PIL import Image
from small_task import CLASSES, small_task

from common.many import service


def answered(seconds, **options):
    """(status, JSON) of a POST of a picture, if the network takes so many seconds."""
    requests = pytest.importorskip("starlette.requests", reason="it comes with ray[serve]")
    file = io.BytesIO()
    Image.new("RGB", (60, 40), (200, 30, 30)).save(file, "PNG")

    async def classify(packed):
        await asyncio.sleep(seconds)
        return np.arange(CLASSES, dtype=np.float32)

    async def receive():
        return {"type": "http.request", "body": file.getvalue(), "more_body": False}

    async def ask():
        answers = service.Answers(small_task(), service.Options(**options), classify, lambda: (0, 0))
        scope = {"type": "http", "method": "POST", "path": "/", "headers": [], "query_string": b""}
        return await answers(requests.Request(scope, receive))

    response = asyncio.run(ask())
    return response.status_code, json.loads(response.body)


def test_an_answer_that_takes_too_long_is_a_504_with_a_sentence():
    start = time.monotonic()
    assert answered(30, answer_s=0.5) == (504, {"error": "The answer took longer than 0.5 s; try again later."})
    assert time.monotonic() - start < 10


def test_an_answer_in_time_has_the_classes():
    status, answer = answered(0)
    assert status == 200 and answer["class"] == CLASSES - 1 and len(answer["top"]) == service.TOP
