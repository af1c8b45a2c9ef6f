import os, select, socket, sys
kind, host, portFile, count, pid = sys.argv[1:6]
passed = socket.socket(getattr(socket, kind), socket.SOCK_DGRAM if count == 'datagram' else socket.SOCK_STREAM)
passed.bind(host if kind == 'AF_UNIX' else (host, 0))
if count != 'datagram':
    passed.listen()
if portFile:
    with open(portFile, 'w') as file:
        file.write(f'{passed.getsockname()[1]}\n')
if count == 'when a client connects':
    select.select([passed], [], [])
os.dup2(passed.fileno(), 3)
os.set_inheritable(3, True)
os.environ['LISTEN_PID'] = pid or str(os.getpid())
os.environ['LISTEN_FDS'] = count.isdigit() and count or '1'
os.execvp(sys.argv[6], sys.argv[6:])
