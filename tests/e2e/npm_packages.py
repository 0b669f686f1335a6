"""Packages from npm that tests and lint need, but the product does not: each folder with a package-lock.json has a copy with node_modules."""
import fcntl
import shutil
import subprocess


def installed(source, folder):
    """Fetches what source's package-lock.json names into folder, unless folder has it; returns folder. No script of a package is run."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = (source / "package-lock.json").read_bytes()
    with open(folder / "lock", "w", encoding="utf-8") as held:   # several scripts run at once
        fcntl.flock(held, fcntl.LOCK_EX)
        stamp = folder / "installed"
        if (folder / "node_modules").exists() and stamp.exists() and stamp.read_bytes() == lock:
            return folder
        for name in ("package.json", "package-lock.json"):
            shutil.copy(source / name, folder)
        subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error"], cwd=folder,
                       stdin=subprocess.DEVNULL, check=True, timeout=600)
        stamp.write_bytes(lock)
    return folder
