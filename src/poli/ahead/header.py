"""The header of the kernels compiled ahead: what they are called, what they take, and what they were made of."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from hashlib import sha256

from poli.ahead.fingerprint import PACKAGE, fingerprint

FOLDER = PACKAGE / "ahead"
BITCODE = "kernels.bc"
OBJECT = "kernels.x86-64-v3"
_NAME = "kernels.json"


@dataclass(frozen=True)
class Header:
    kernels: dict[str, str]  # "poli.estimation.frames._radii" and its layout
    sources: list[str]
    fingerprint: str  # of the sources
    digests: dict[str, str]  # of the files beside the header
    llvm: int  # the version whose bitcode it is; an older LLVM may not read it
    numba: str

    def is_current(self) -> bool:
        return fingerprint(self.sources) == self.fingerprint

    def content(self, name: str) -> bytes:
        """Of a file beside the header, which must be the one that the header was written for: LLVM trusts what it is given."""
        content = (FOLDER / name).read_bytes()
        if sha256(content).hexdigest() != self.digests[name]:
            raise ValueError(f"{FOLDER / name}: not the file that {_NAME} tells of; `make kernels` writes both")
        return content

    def write(self) -> None:
        (FOLDER / _NAME).write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    @staticmethod
    def read() -> Header:
        return Header(**json.loads((FOLDER / _NAME).read_text(encoding="utf-8")))
