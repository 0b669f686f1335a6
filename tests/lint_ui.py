#!/usr/bin/env python3
"""ESLint with the rules of tests/ui/eslint.config.mjs over the dashboard's source. The types come from the build.
usage: tests/lint_ui.py BUILD_FOLDER [FILE ...]     FILE: instead of the whole source
"""
import os
import pathlib
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SOURCE / "tests" / "e2e"))
import npm_packages  # noqa: E402


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    packages = npm_packages.installed(SOURCE / "tests" / "ui", build / "ui-tests")
    done = subprocess.run(["node", packages / "node_modules" / "eslint" / "bin" / "eslint.js", "--config", "tests/ui/eslint.config.mjs", "--max-warnings", "0",
                           *(sys.argv[2:] or ["collector/web/ui/src"])], cwd=SOURCE, check=False,
                          env={**os.environ, "EA_PACKAGES": str(packages), "EA_TSCONFIG": str(build / "collector/web/ui/tsconfig.json")})
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
