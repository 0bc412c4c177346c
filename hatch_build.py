"""The build hook: numba compiles the kernels when the package is built or installed, as C extensions are compiled, but without a C
compiler. `src/poli/building` says how.

`POLI_NATIVE_BUILD` chooses for whom: `host` for the CPU at hand, as an installation from source wants it; `wheel` for others of the
same platform (x86-64-v3 and v4), as `make wheel` does; `off` for nobody. Without compiled code the package is complete as well:
numba compiles at the first call, and says so. So nothing that goes wrong here stops a build.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_PLACE = "poli/native/compiled"


class CustomBuildHook(BuildHookInterface):
    _scratch: Path | None = None

    def initialize(self, version: str, build_data: dict) -> None:
        levels = os.environ.get("POLI_NATIVE_BUILD", "host")
        if levels == "off":
            self.app.display_warning("poli: POLI_NATIVE_BUILD is off: kernels are not compiled now, but by numba at the first call")
            return
        source = Path(self.root) / "src"
        if version == "editable":  # the sources are the installation
            self._compile(levels, source, source / _PLACE)
            return
        self._scratch = Path(tempfile.mkdtemp(prefix="poli-build-"))
        compiled = self._scratch / "compiled"
        if self._compile(levels, source, compiled):
            build_data["force_include"][str(compiled)] = _PLACE
            build_data["pure_python"] = False
            build_data["infer_tag"] = True  # for this Python on this platform

    def finalize(self, version: str, build_data: dict, artifact_path: str) -> None:
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _compile(self, levels: str, source: Path, out: Path) -> bool:
        # In a process of its own that leaves nothing behind in the sources. PYTHONPATH stays: pip's isolated environments need it.
        with tempfile.TemporaryDirectory() as cache:
            paths = os.pathsep.join(filter(None, [str(source), os.environ.get("PYTHONPATH")]))
            command = [sys.executable, "-m", "poli.building", "--levels", levels, "--out", str(out)]
            done = subprocess.run(command, env=os.environ | {"PYTHONPATH": paths, "PYTHONPYCACHEPREFIX": cache}, check=False)
        if done.returncode:
            self.app.display_warning("poli: kernels could not be compiled (see above); numba does it at the first call instead")
        return done.returncode == 0
