"""A copy of the scripts, and programs that only pretend. For the tests of this folder."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: with packages for Node
NODE_FOLDERS = ("tests/node", "clients/raycast")

#: real programs that the scripts may use
TOOLS = (
    *("sh", "bash", "make", "awk", "cat", "cksum", "cmp", "cp", "dirname", "env", "grep"),
    *("mkdir", "mktemp", "mv", "rm", "tail", "touch", "tr", "true"),
)

#: plays a Python: `$fits`, `$has_venv` and `$torch` are exit statuses, `$pip` is what pip does
PYTHON = r"""#!/bin/sh
fits=0 has_venv=0 torch=0
[ ! -e "$FAKES/settings" ] || . "$FAKES/settings"
me=${0##*/}
case $0 in *.venv/*) me=venv-python ;; esac
[ ! -e "$FAKES/$me.settings" ] || . "$FAKES/$me.settings"
case "$*" in
*'print("python'*) echo python3.11; exit ;;
*version_info*) exit $fits ;;
*"import ensurepip"*) [ -e "$FAKES/venv-installed" ] && exit 0; exit $has_venv ;;
*'find_spec("torch")'*) exit $torch ;;
"-m pip --version") exit 0 ;;
esac
echo "$me $*" >>"$FAKES/log"
case "$*" in
"-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
"-m pip install "*) [ -z "${pip:-}" ] || { echo "$pip" >&2; exit 1; } ;;
"-m engine"*)
    shift 2
    for word; do printf '<%s>' "$word"; done
    case "$*" in *--*) ;; *) printf 'stdin '; cat ;; esac ;;
esac
"""

LOGGED = """#!/bin/sh
echo "${0##*/} $*" >>"$FAKES/log"
"""


@dataclass
class Checkout:
    """A copy of the scripts, and a PATH that holds nothing but what a test puts there."""

    root: Path
    fakes: Path

    def program(self, name: str, text: str = LOGGED) -> None:
        path = self.fakes / "bin" / name
        path.unlink(missing_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def setting(self, text: str, program: str = "") -> None:
        (self.fakes / (f"{program}.settings" if program else "settings")).write_text(text)

    def run(
        self, *command: str, stdin: str = "", **environ: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.root,
            env={"PATH": str(self.fakes / "bin"), "FAKES": str(self.fakes), **environ},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def log(self) -> list[str]:
        """The programs that were called since the last time this was asked."""
        path = self.fakes / "log"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines

    def environment(self, kind: str = "run", **environ: str) -> subprocess.CompletedProcess[str]:
        return self.run("scripts/environment.sh", kind, **environ)


DPKG = """#!/bin/sh
[ "$4" != "$REMOVED" ] || { echo 'deinstall ok config-files'; exit 0; }
case " $INSTALLED " in *" $4 "*) echo 'install ok installed' ;; *) exit 1 ;; esac
"""

FOR_TESTS = (
    "libportaudio2 pulseaudio pulseaudio-utils libasound2-plugins systemd chromium nodejs npm"
)


def debian(checkout: Checkout, user: int = 0, apt: str = LOGGED) -> None:
    checkout.program("dpkg-query", DPKG)
    checkout.program("apt-get", apt)
    checkout.program("id", f"#!/bin/sh\necho {user}\n")
