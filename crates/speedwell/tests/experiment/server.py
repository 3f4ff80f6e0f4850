"""A misbehaving web server, controlled by its arguments, for tests of the stages of a run.

python3 server.py PORT [KEY=VALUE ...]
  starts=S     listens after S seconds       port=N      listens on another port
  status=N     status of responses           turns=N     responds 500 after N responses
  dies=N       dies after N responses        exits=CODE  exits before it listens
  lingers=S    closes everything S seconds before it exits
  children=N   starts N children             loses=N     a child exits after N responses
  orphan=1     leaves a process behind       stubborn=1  ignores signals
  says=TEXT    writes TEXT to stderr         parting=TEXT writes TEXT to stderr at exit

/ responds with JSON, /processors with the number of processors it may use, any other path with itself.
"""
import contextlib
import os
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler

port = int(sys.argv[1])
wishes = dict(word.split('=', 1) for word in sys.argv[2:])
number = lambda name, usual=0: float(wishes.get(name, usual))
answers = 0
counting = threading.Lock()
children = []
connections = []


class Handler(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    # Else the body waits 40 ms for the acknowledgment of the header.
    disable_nagle_algorithm = True

    def setup(self):
        super().setup()
        connections.append(self.connection)

    def do_GET(self):
        global answers
        with counting:
            answers += 1
            turn = answers
        if turn == number('dies', -1):
            if 'lingers' in wishes:
                for opened in [server.socket, *connections]:
                    with contextlib.suppress(OSError):  # the other side may have closed it
                        opened.shutdown(socket.SHUT_RDWR)
                time.sleep(number('lingers'))
            os.kill(os.getpid(), signal.SIGSEGV)
        if turn == number('loses', -1):
            children[0].kill()
            children[0].wait()
        status = int(number('status', 200))
        if turn > number('turns', 1e9):
            status = 500
        body = b'{"hello":"world"}' if self.path == '/' else self.path.encode()
        if self.path == '/processors':
            body = str(len(os.sched_getaffinity(0))).encode()
        self.send_response(status)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 100


def end(*_):
    if 'parting' in wishes:
        print(wishes['parting'], file=sys.stderr, flush=True)
    for child in children:
        child.terminate()
    os._exit(0)


for received in (signal.SIGTERM, signal.SIGINT):
    signal.signal(received, signal.SIG_IGN if 'stubborn' in wishes else end)
sleeper = [sys.executable, '-c', 'import time; time.sleep(60)']
for _ in range(int(number('children'))):
    children.append(subprocess.Popen(sleeper))
if 'orphan' in wishes:
    subprocess.Popen(sleeper, start_new_session=True)
if 'says' in wishes:
    print(wishes['says'], file=sys.stderr, flush=True)
time.sleep(number('starts'))
if 'exits' in wishes:
    sys.exit(int(wishes['exits']))
with Server(('127.0.0.1', int(number('port', port))), Handler) as server:
    server.serve_forever(poll_interval=0.01)
