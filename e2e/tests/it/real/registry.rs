//! A registry with one image on the loopback of a node, which notes what it is asked for.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use packages::Layout;
use testkit::real_cluster::Node;

/// Its port; the loopback is the node's own, so nothing else has it.
const PORT: u16 = 5000;

/// How a mirror set names it.
pub(super) const ADDRESS: &str = "127.0.0.1:5000";

pub(super) struct Registry<'a> {
    node: &'a Node,
    is_over: Arc<AtomicBool>,
    asked: Arc<Mutex<Vec<String>>>,
    thread: Option<JoinHandle<()>>,
}

impl<'a> Registry<'a> {
    pub(super) fn start(node: &'a Node, image: Layout) -> Self {
        let (is_over, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (over, notes) = (Arc::clone(&is_over), Arc::clone(&asked));
        let (told, listening) = std::sync::mpsc::channel();
        let thread = node.inside(move || {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, PORT)).unwrap();
            told.send(()).unwrap();
            for stream in listener.incoming() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                // A client that tries TLS first sends no line that can be read, and goes.
                let _ = stream.and_then(|stream| answer(stream, &image, &notes));
            }
        });
        listening.recv().unwrap();
        Self { node, is_over, asked, thread: Some(thread) }
    }

    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Registry<'_> {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // Wakes the thread, which waits for the next client.
        let _ = self.node.inside(|| TcpStream::connect((Ipv4Addr::LOCALHOST, PORT)).is_ok()).join();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn answer(mut stream: TcpStream, image: &Layout, notes: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let Some(request) = lines.next().transpose()? else { return Ok(()) };
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let mut words = request.split(' ');
    let (Some(verb), Some(path)) = (words.next(), words.next()) else { return Ok(()) };
    notes.lock().unwrap().push(format!("{verb} {path}"));
    let path = path.split('?').next().unwrap_or_default();
    let digest = path.rsplit('/').next().unwrap_or_default();
    let found = image.blobs.get(digest);
    let (status, kind, body) = match found {
        Some(blob) if path.contains("/manifests/") => {
            ("200 OK", "application/vnd.oci.image.manifest.v1+json", blob.as_slice())
        }
        Some(blob) => ("200 OK", "application/octet-stream", blob.as_slice()),
        None if path == "/v2/" => ("200 OK", "application/json", &b"{}"[..]),
        None => ("404 Not Found", "application/json", &b"{}"[..]),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nDocker-Content-Digest: {digest}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    if verb == "GET" {
        stream.write_all(body)?;
    }
    Ok(())
}
