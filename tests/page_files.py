"""Read the numbers of a page back."""

import base64
import json
import re

import numpy as np

KINDS = {"uint16": "<u2", "float32": "<f4"}


def data_of(path):
    found = re.findall(r'<script type="application/json" id="poli-data">(.*?)</script>', path.read_text(), re.DOTALL)
    assert len(found) == 1
    return json.loads(found[0])


def array(text, kind, width):
    return np.frombuffer(base64.b64decode(text), kind).reshape(-1, width)


def places(data, part):
    place = part["place"]
    return np.array(data["origin"]) + place["start"] + np.array(place["step"]) * array(place["data"], KINDS[place["type"]], 3)
