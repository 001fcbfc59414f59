//! Machines, and processes that answer on a socket.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use jiff::Timestamp;
use machine::provider::{Intent, Mark, Request, SecretData, Secrets};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

/// The guide's provider, as its page has it.
pub(crate) struct Guide {
    process: Child,
    pub(crate) socket: PathBuf,
    folder: tempfile::TempDir,
}

impl Guide {
    pub(crate) fn start() -> Self {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/guide/a-provider-of-your-own.md");
        let page = std::fs::read_to_string(page).unwrap();
        let (_, rest) = page.split_once("```python shed.py\n").unwrap();
        let (program, _) = rest.split_once("\n```\n").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shed.py");
        std::fs::write(&path, program).unwrap();
        let socket = folder.path().join("shed.sock");
        let mut python = Command::new("python3");
        python.arg(&path).arg(&socket).arg(folder.path().join("machines"));
        let mut process = python.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        // Its first line says that it listens.
        let mut line = String::new();
        let mut lines = std::io::BufReader::new(process.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut lines, &mut line).unwrap();
        assert!(line.contains("listening"), "{line}");
        Self { process, socket, folder }
    }

    /// Names of what the provider has left.
    pub(crate) fn left(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path().join("machines")).unwrap();
        let read = entries.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap());
        read.filter(|text| !text.contains("\"gone\": true")).collect()
    }
}

impl Drop for Guide {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Answers calls by their path: the status and the body, or nothing at all.
pub(crate) fn answering(
    folder: &Path,
    answer: impl Fn(&str) -> Option<(u16, String)> + Send + Sync + 'static,
) -> PathBuf {
    let socket = folder.join("provider.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(reply(stream, answer.clone()));
        }
    });
    socket
}

async fn reply(mut stream: UnixStream, answer: Arc<impl Fn(&str) -> Option<(u16, String)>>) {
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    let path = loop {
        let length = stream.read(&mut buffer).await.unwrap();
        text.extend_from_slice(&buffer[..length]);
        if let Some(path) = whole(&String::from_utf8_lossy(&text)) {
            break path;
        }
        assert!(length > 0, "the question was cut off");
    };
    let Some((status, body)) = answer(&path) else { return std::future::pending().await };
    let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    // Whoever asked may have gone.
    let _ = stream.write_all((head + &body).as_bytes()).await;
}

/// The path of a question that has arrived to its end.
fn whole(text: &str) -> Option<String> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    let length =
        head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse::<usize>().ok())?;
    (body.len() >= length).then(|| head.split(' ').nth(1).unwrap_or_default().to_owned())
}

/// A description of a provider without fields.
pub(crate) fn described() -> (u16, String) {
    (200, json!({"version": 1, "name": "test"}).to_string())
}

pub(crate) fn secrets() -> Secrets {
    let data = SecretData(BTreeMap::from([("userData".to_owned(), b"user data of this machine".to_vec())]));
    let credentials = SecretData(BTreeMap::from([("password".to_owned(), b"correct horse".to_vec())]));
    Secrets { credentials: Some(credentials), user_data: Some(data) }
}

/// A Machine whose intent is recorded, with a spec.
pub(crate) fn request(name: &str, spec: Value) -> Request {
    let mark = Mark {
        cluster: "c".to_owned(),
        namespace: "openshift-machine-api".to_owned(),
        machine: name.to_owned(),
        uid: format!("uid-of-{name}"),
    };
    let intent = Intent {
        token: format!("token-of-{name}"),
        attempt: 1,
        children: BTreeMap::new(),
        place: Value::Null,
        recorded: Timestamp::UNIX_EPOCH,
    };
    Request {
        mark,
        labels: BTreeMap::new(),
        control_plane: false,
        spec: Arc::new(spec),
        provider_id: None,
        provider_status: None,
        intent: Some(intent),
        secrets: Arc::new(secrets()),
    }
}
