# SPDX-License-Identifier: Apache-2.0
"""intruder.py memory|refused PID: tries the ways to another process's memory and open files.

memory: ends with 0 if memory that the process exports can be opened, as its peers open it.
refused: becomes another user, and ends with 0 if every way is refused to that one."""

import ctypes
import os
import sys

PIDFD_GETFD = 438  # of syscall(2), on every architecture
FILES = 256
OTHER_USER = 65534
libc = ctypes.CDLL(None, use_errno=True)


def open_file(pid, fd):
    os.close(os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR))


def take_file(pid, fd):
    own = os.pidfd_open(pid)
    try:
        if libc.syscall(PIDFD_GETFD, own, fd, 0) < 0:
            raise OSError(ctypes.get_errno(), "pidfd_getfd")
    finally:
        os.close(own)


def memory(pid):
    for fd in os.listdir(f"/proc/{pid}/fd"):
        if os.readlink(f"/proc/{pid}/fd/{fd}").startswith("/memfd:kern-emu-"):
            open_file(pid, fd)
            return
    sys.exit("it exports nothing")


def refused(pid):
    os.setgroups([])
    os.setresgid(OTHER_USER, OTHER_USER, OTHER_USER)
    os.setresuid(OTHER_USER, OTHER_USER, OTHER_USER)
    os.stat(f"/proc/{pid}")  # it is there
    ways = {f"{way.__name__} {fd}": (way, pid, fd) for fd in range(FILES) for way in (open_file, take_file)}
    ways["list"] = (os.listdir, f"/proc/{pid}/fd")
    ways["mem"] = (os.open, f"/proc/{pid}/mem", os.O_RDWR)
    ways["maps"] = (os.listdir, f"/proc/{pid}/map_files")
    for name, (way, *arguments) in ways.items():
        try:
            way(*arguments)
        except PermissionError:
            continue
        except OSError as error:
            sys.exit(f"{name}: {error}, which is no refusal")
        sys.exit(f"{name} of process {pid} worked")


{"memory": memory, "refused": refused}[sys.argv[1]](int(sys.argv[2]))
