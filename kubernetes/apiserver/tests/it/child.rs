//! The server as a process of its own, so that it can be killed: this test binary runs itself again.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use reqwest::Client;
use serde_json::Value;

const FOLDER: &str = "APISERVER_TEST_FOLDER";

/// Not a test of its own: the process that other tests start and kill.
#[tokio::test]
async fn serves_until_killed_when_told_a_folder() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    match apiserver::Server::builder().data(folder).start().await {
        Ok(server) => {
            println!("serving {}", server.server());
            std::future::pending::<()>().await;
        }
        Err(error) => println!("refused {error}"),
    }
}

pub(crate) struct Process {
    child: Child,
    pub(crate) server: String,
}

impl Process {
    /// Starts the server on a folder; `limit` is the largest file it may write, in blocks of 512 bytes.
    pub(crate) fn start(folder: &Path, limit: Option<u32>) -> Result<Self, String> {
        let program = std::env::current_exe().unwrap();
        let name = "child::serves_until_killed_when_told_a_folder";
        let mut command = match limit {
            None => Command::new(&program),
            Some(blocks) => {
                let mut shell = Command::new("sh");
                // An ignored signal stays ignored in the child: writing past the limit fails instead of killing.
                shell.arg("-c").arg(format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"")).arg(&program);
                shell
            }
        };
        command.args([name, "--exact", "--nocapture", "--test-threads=1"]).env(FOLDER, folder);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        for line in output.lines().map_while(Result::ok) {
            // The test harness prints the test's name in front of the first line.
            if let Some((_, server)) = line.split_once("serving ") {
                return Ok(Self { child, server: server.to_owned() });
            }
            if let Some((_, reason)) = line.split_once("refused ") {
                let _ = child.wait();
                return Err(reason.to_owned());
            }
        }
        let _ = child.kill();
        let _ = child.wait();
        Err("the server ended without a word".to_owned())
    }

    pub(crate) fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// A client of the admin of a folder, whatever port its server has.
pub(crate) struct Admin {
    client: Client,
    token: String,
}

impl Admin {
    pub(crate) fn of(folder: &Path) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let certificate = std::fs::read(folder.join("ca.crt")).unwrap();
        let certificate = reqwest::Certificate::from_pem(&certificate).unwrap();
        let client = Client::builder().tls_certs_only([certificate]).build().unwrap();
        let token = std::fs::read_to_string(folder.join("admin.token")).unwrap();
        Self { client, token }
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        url: &str,
        content_type: &str,
        body: String,
    ) -> Result<(u16, Value), reqwest::Error> {
        let request = self.client.request(method.parse().unwrap(), url).bearer_auth(&self.token);
        let response = request.header("content-type", content_type).body(body).send().await?;
        let code = response.status().as_u16();
        let text = response.text().await?;
        Ok((code, serde_json::from_str(&text).unwrap_or_default()))
    }
}
