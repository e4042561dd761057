//! Slow clients, connection limits and shutdown.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use zstn_serve::{Handle, Limits};

use super::{address, bind, get, run};

const REQUEST: &[u8] = b"GET /large.bin HTTP/1.1\r\nHost: localhost\r\n\r\n";
/// Number of bytes that exceeds all socket buffers.
const LARGE_BYTES: u64 = 64 << 20;
const ENDLESS: Duration = Duration::from_secs(1 << 20);

/// Limits that no test reaches.
const NONE: Limits = Limits {
    head: ENDLESS,
    write: ENDLESS,
    connections: 100,
    connections_per_address: 100,
    give_way: ENDLESS,
    grace: Duration::from_secs(3),
};

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let file = std::fs::File::create(folder.path().join("large.bin")).unwrap();
    file.set_len(LARGE_BYTES).unwrap();
    std::fs::write(folder.path().join("small.bin"), "bytes").unwrap();
    folder
}

fn limited(folder: &Path, limits: Limits) -> (SocketAddr, Handle) {
    let server = bind(folder).with_limits(limits);
    let handle = server.handle();
    (run(server), handle)
}

fn connect(server: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(server).unwrap();
    // This timeout ends a failing test.
    let patience = Some(Duration::from_secs(60));
    stream.set_read_timeout(patience).unwrap();
    stream
}

/// Reads until the server closes the connection. Returns the number of bytes received.
fn read_out(stream: &mut TcpStream) -> u64 {
    let mut buffer = vec![0; 1 << 20];
    let mut len = 0;
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return len,
            Ok(read) => len += read as u64,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return len,
            Err(error) => panic!("the server does not hang up: {error}"),
        }
    }
}

/// Requests the small file from another loopback address.
#[cfg(target_os = "linux")]
fn get_from(address: [u8; 4], server: SocketAddr) -> Vec<u8> {
    use socket2::{Domain, Socket, Type};
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((address, 0)).into()).unwrap();
    socket.connect(&server.into()).unwrap();
    let mut stream = TcpStream::from(socket);
    let request = b"GET /small.bin HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    answer.split_off(end.unwrap() + 4)
}

/// Starts a download and stops reading.
fn stalled(server: SocketAddr) -> TcpStream {
    let mut stream = connect(server);
    stream.write_all(REQUEST).unwrap();
    stream.read_exact(&mut [0; 1]).unwrap();
    stream
}

fn wait_for(handle: &Handle, connections: usize) {
    let start = Instant::now();
    while handle.connections() != connections {
        assert!(start.elapsed() < Duration::from_secs(60));
        std::thread::yield_now();
    }
}

#[test]
fn requests_that_do_not_come_are_not_waited_for() {
    let folder = folder();
    let limits = Limits {
        head: Duration::from_millis(200),
        ..NONE
    };
    let (server, handle) = limited(folder.path(), limits);
    let mut streams: Vec<TcpStream> = (0..60).map(|_| connect(server)).collect();
    let answered = b"GET /small.bin HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for (number, stream) in streams.iter_mut().enumerate() {
        let sent: &[u8] = match number % 3 {
            0 => b"",
            1 => b"GET /small.bin HTTP/1.1\r\nHost: loc",
            _ => answered,
        };
        stream.write_all(sent).unwrap();
    }
    let dripping = connect(server);
    std::thread::scope(|scope| {
        // Sends single bytes until the server closes the connection.
        scope.spawn(|| {
            let mut request = b"GET /small.bin HTTP/1.1\r\nX: ".iter().copied();
            while (&dripping)
                .write_all(&[request.next().unwrap_or(b'x')])
                .is_ok()
            {
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        for (number, stream) in streams.iter_mut().enumerate() {
            let len = read_out(stream);
            assert_eq!(len > 0, number % 3 == 2, "{len} bytes for {number}");
        }
    });
    wait_for(&handle, 0);
    assert_eq!(get(server, "/small.bin", &[]).body, b"bytes");
}

#[test]
fn a_client_that_takes_nothing_is_dropped() {
    let folder = folder();
    let limits = Limits {
        write: Duration::from_millis(200),
        ..NONE
    };
    let (server, handle) = limited(folder.path(), limits);
    let mut streams: Vec<TcpStream> = (0..8).map(|_| stalled(server)).collect();
    wait_for(&handle, 0);
    for stream in &mut streams {
        let len = read_out(stream);
        assert!(len < LARGE_BYTES, "{len} bytes");
    }
    assert_eq!(get(server, "/small.bin", &[]).body, b"bytes");
}

/// Number of connections that are accepted beyond the limit.
const RESERVE: usize = 64;

#[test]
fn idle_connections_make_way_for_new_ones() {
    let folder = folder();
    let limits = Limits {
        connections: 4,
        connections_per_address: 4,
        ..NONE
    };
    let (server, handle) = limited(folder.path(), limits);
    let mut others: Vec<TcpStream> = (0..4).map(|_| stalled(server)).collect();
    let mut first = connect(server);
    wait_for(&handle, 5);
    let idle: Vec<TcpStream> = (1..RESERVE).map(|_| connect(server)).collect();
    wait_for(&handle, 4 + RESERVE);
    let _last = connect(server);
    assert_eq!(read_out(&mut first), 0, "it was idle for longest");
    drop(idle);

    // All connections have unfinished answers, so the next one waits until one of them
    // ends.
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| get(server, "/small.bin", &[]).body);
        drop(others.pop());
        assert_eq!(waiting.join().unwrap(), b"bytes");
    });
    // The other downloads are unaffected and complete.
    for stream in &mut others {
        let copied = std::io::copy(&mut stream.take(LARGE_BYTES), &mut std::io::sink());
        assert_eq!(copied.unwrap(), LARGE_BYTES);
    }
}

/// One address cannot take all slots, and its stalled clients lose theirs when other
/// clients wait.
#[cfg(target_os = "linux")]
#[test]
fn clients_that_stop_reading_give_way() {
    let folder = folder();
    let limits = Limits {
        connections: 4,
        connections_per_address: 3,
        ..NONE
    };
    let (server, handle) = limited(folder.path(), limits);
    let _stalled: Vec<TcpStream> = (0..3).map(|_| stalled(server)).collect();
    // A fourth connection from this address waits, while another address is served.
    let mut waiting = connect(server);
    waiting.write_all(REQUEST).unwrap();
    wait_for(&handle, 4);
    assert_eq!(get_from([127, 0, 0, 2], server), b"bytes");
    waiting
        .set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    assert!(waiting.read(&mut [0; 1]).is_err());

    let limits = Limits {
        give_way: Duration::from_millis(100),
        ..limits
    };
    let (server, _) = limited(folder.path(), limits);
    let _stalled: Vec<TcpStream> = (0..3).map(|_| stalled(server)).collect();
    assert_eq!(get(server, "/small.bin", &[]).body, b"bytes");
}

#[test]
fn a_handle_stops_a_server() {
    let folder = folder();
    let server = bind(folder.path()).with_limits(NONE);
    let (address, handle) = (address(&server), server.handle());
    let thread = std::thread::spawn(move || server.run(|_| ()));
    let mut idle = connect(address);
    let _stalled = stalled(address);
    assert_eq!(get(address, "/small.bin", &[]).body, b"bytes");
    handle.stop();
    thread.join().unwrap().unwrap();
    assert_eq!(read_out(&mut idle), 0);
    assert!(TcpStream::connect(address).is_err());
}
