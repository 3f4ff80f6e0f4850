//! A server that does as little as possible, so that a generator is the bottleneck: it answers
//! every request head with the same bytes. For `eval/bench-load`, which starts it with an
//! address to listen on and stops it.

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::collections::HashMap;
use std::error::Error;
use std::net::{TcpListener, TcpStream};

const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 14\r\n\r\nhello, world!\n";

/// The token of the listening socket.
const LISTENER: u64 = u64::MAX;

fn main() -> Result<(), Box<dyn Error>> {
    let Some(address) = std::env::args().nth(1).filter(|word| !word.starts_with("--")) else {
        // Run directly as a benchmark, it measures nothing.
        eprintln!("usage: answer ADDRESS:PORT; see eval/bench-load");
        return Ok(());
    };
    serve(&TcpListener::bind(address)?)
}

fn serve(listener: &TcpListener) -> Result<(), Box<dyn Error>> {
    listener.set_nonblocking(true)?;
    let poll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&poll, listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let mut streams: HashMap<u64, TcpStream> = HashMap::new();
    let (mut next, mut events) = (0, Vec::with_capacity(1024));
    let mut buffer = vec![0; 64 * 1024];
    loop {
        events.clear();
        epoll::wait(&poll, spare_capacity(&mut events), None)?;
        for event in &events {
            let token = event.data.u64();
            if token == LISTENER {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true)?;
                    stream.set_nodelay(true)?;
                    epoll::add(&poll, &stream, EventData::new_u64(next), EventFlags::IN)?;
                    streams.insert(next, stream);
                    next += 1;
                }
            } else if streams.get(&token).is_some_and(|stream| !answer(stream, &mut buffer)) {
                streams.remove(&token);
            }
        }
    }
}

/// Answers every head that has arrived; heads of this load are never split. Returns false at the
/// end.
fn answer(stream: &TcpStream, buffer: &mut [u8]) -> bool {
    match recv(stream, &mut *buffer, RecvFlags::empty()) {
        Ok((0, _)) => false,
        Ok((read, _)) => {
            let heads = buffer[..read].windows(4).filter(|end| end == b"\r\n\r\n");
            let answers = ANSWER.repeat(heads.count());
            send(stream, &answers, SendFlags::NOSIGNAL).is_ok()
        }
        Err(Errno::AGAIN | Errno::INTR) => true,
        Err(_) => false,
    }
}
