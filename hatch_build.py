"""The build hook: numba compiles the kernels when the package is built or installed, like C extensions but without a C compiler.

See `src/poli/building`. `POLI_NATIVE_BUILD` chooses the target: `host` (default) for this CPU, as for an installation from source;
`wheel` for distribution on the same platform (x86-64-v3 and v4), as in `make wheel`; `off` to compile nothing. The package works
without compiled code: numba compiles at the first call and says so. So an error here never stops a build.
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
            self.app.display_warning("poli: POLI_NATIVE_BUILD is off; numba will compile the kernels at the first call")
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
        # A separate process that leaves no files in the sources. PYTHONPATH is kept: pip's isolated environments need it.
        with tempfile.TemporaryDirectory() as cache:
            paths = os.pathsep.join(filter(None, [str(source), os.environ.get("PYTHONPATH")]))
            command = [sys.executable, "-m", "poli.building", "--levels", levels, "--out", str(out)]
            done = subprocess.run(command, env=os.environ | {"PYTHONPATH": paths, "PYTHONPYCACHEPREFIX": cache}, check=False)
        if done.returncode:
            self.app.display_warning("poli: kernels could not be compiled (see above); numba will compile them at the first call")
        return done.returncode == 0
