# SPDX-License-Identifier: Apache-2.0
"""One sandbox for several commands: a server is started by one and asked by the next.

The server is reached inside only; nothing of it is seen from outside, and it ends with the session.

    python3 session.py
"""

import sys

from pycordon import Session

ASK = """
import sys, time, urllib.error, urllib.request
for attempt in range(100):
    try:
        print(urllib.request.urlopen("http://127.0.0.1:8000/" + sys.argv[1], timeout=5).read().decode())
        break
    except urllib.error.HTTPError as error:
        sys.exit(str(error))
    except OSError:
        time.sleep(0.1)  # it has just been started
else:
    sys.exit("the server does not answer")
"""


def main() -> int:
    """Prints what the server said, and how the session ended."""
    with Session(limits_memory="256M", max_execution_seconds=120) as session:
        session.files.write("/tmp/site/hello.txt", "hello from the session")
        server = session.start(["python3", "-m", "http.server", "8000"], cwd="/tmp/site")
        asked = session.exec(["python3", "-c", ASK, "hello.txt"], timeout=30, check=True)
        print(asked.stdout, end="")
        missing = session.exec(["python3", "-c", ASK, "nothing.txt"], timeout=30)
        print(f"status {missing.returncode}: {missing.stderr.splitlines()[-1]}")
        print(f"commands that run: {session.usage()['commands']}")
        server.kill()
        receipt = session.stop()
    return 0 if receipt is not None and receipt["kind"] == "cancelled" else 1


if __name__ == "__main__":
    sys.exit(main())
