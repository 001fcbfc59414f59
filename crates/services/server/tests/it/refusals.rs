//! Refused requests: their status, and that the body says what to do.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::world::{World, plain_config};

#[track_caller]
fn tells(body: &str, words: &[&str]) {
    for word in words {
        assert!(body.contains(word), "{body:?} does not say {word:?}");
    }
}

#[tokio::test]
async fn a_version_that_cannot_be_served_is_refused_with_those_that_can() {
    let world = World::start(&plain_config());
    for version in ["3.0.0", "2.1.0", "4.0.0"] {
        let answer = world.get("/config/master", version).await;
        assert_eq!(answer.status(), 400, "for {version}");
        tells(&answer.text().await.unwrap(), &["3.1.0", "3.5.0"]);
    }
}

#[tokio::test]
async fn a_feature_that_an_old_version_lacks_is_406_and_named() {
    let mut config = plain_config();
    config["storage"]["luks"] = json!([{"name": "data", "device": "/dev/sdb"}]);
    let world = World::start(&config);
    let answer = world.get("/config/master", "3.1.0").await;
    assert_eq!(answer.status(), 406);
    tells(&answer.text().await.unwrap(), &["rendered-master-1", "luks", "newer Ignition"]);
    assert_eq!(world.get("/config/master", "3.5.0").await.status(), 200);
}

#[tokio::test]
async fn machines_of_other_pools_are_told_to_retry() {
    let world = World::start(&plain_config());
    let answer = world.get("/config/worker", "3.2.0").await;
    assert_eq!(answer.status(), 503);
    assert!(answer.headers().contains_key("retry-after"));
}

#[tokio::test]
async fn a_config_that_is_not_there_yet_is_503_and_a_broken_one_is_500() {
    let world = World::start(&plain_config());
    let path = world.folder.path().join("machine-configs/rendered-master-1.yaml");
    std::fs::remove_file(&path).unwrap();
    assert_eq!(world.get("/config/master", "3.2.0").await.status(), 503);
    std::fs::write(&path, "spec: [").unwrap();
    let answer = world.get("/config/master", "3.2.0").await;
    assert_eq!(answer.status(), 500);
    tells(&answer.text().await.unwrap(), &["rendered-master-1.yaml"]);
}

#[tokio::test]
async fn paths_and_methods_that_are_not_ours_are_refused() {
    let world = World::start(&plain_config());
    for path in ["/", "/config", "/config/", "/config/a/b", "/config/master/", "/config/%6daster"] {
        assert_eq!(world.get(path, "3.2.0").await.status(), 404, "for {path}");
    }
    let posted = world.client().post(world.url("/config/master")).send().await.unwrap();
    assert_eq!(posted.status(), 405);
    assert_eq!(posted.headers()["allow"], "GET, HEAD");
}

/// Sends raw bytes to the plain HTTP port and returns everything received until the server closes.
async fn talk(world: &World, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(world.plain).await.unwrap();
    // The server may close before it has read everything.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let _ =
        tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut answer)).await.expect("closed in time");
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn huge_headers_are_refused() {
    let world = World::start(&plain_config());
    let request = format!("GET /config/master HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "a".repeat(1 << 20));
    let answer = talk(&world, request.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer:?}");
    assert_eq!(world.get("/healthz", "3.2.0").await.status(), 200);
}

#[tokio::test]
async fn a_client_that_sends_too_slowly_gets_408_while_others_are_served() {
    let world = World::start(&plain_config());
    let mut stream = TcpStream::connect(world.plain).await.unwrap();
    let begin = std::time::Instant::now();
    stream.write_all(b"GET /config/master HTTP/1.1\r\nHost: x\r\nX-Slow: ").await.unwrap();
    let (mut reader, mut writer) = stream.split();
    let trickle = async {
        while writer.write_all(b"a").await.is_ok() {
            assert_eq!(world.get("/config/master", "3.2.0").await.status(), 200);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        std::future::pending().await
    };
    let mut answer = String::new();
    let read = tokio::select! {
        read = reader.read_to_string(&mut answer) => read,
        never = trickle => never,
    };
    assert!(read.is_ok(), "{read:?}");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 408"), "{answer:?}");
    assert!(head.contains(&format!("content-length: {}", body.len())), "{answer:?}");
    tells(body, &["send its head at once"]);
    let took = begin.elapsed();
    assert!(Duration::from_secs(4) < took && took < Duration::from_secs(10), "{took:?}");
}

#[tokio::test]
async fn a_connection_that_sends_nothing_is_closed_without_a_response() {
    let world = World::start(&plain_config());
    assert_eq!(talk(&world, b"").await, "");
    let answer = talk(&world, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok\n"), "there is no second response: {answer:?}");
}

#[tokio::test]
async fn garbage_is_answered_with_400_and_harms_nobody() {
    let world = World::start(&plain_config());
    let answer = talk(&world, b"\x00\xff\x16\x03 nonsense\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer:?}");
    assert_eq!(world.get("/healthz", "3.2.0").await.status(), 200);
}

#[tokio::test]
async fn headers_that_make_no_sense_get_a_clean_status() {
    let world = World::start(&plain_config());
    let get = |head: &str| format!("GET /config/master HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{head}\r\n");
    let accept = "application/vnd.coreos.ignition+json";
    for (head, status) in [
        (format!("Accept: {accept};version=3.2.0;q=1e999\r\n"), 200),
        (format!("Accept: {accept};version=3.2.0;q=NaN,{accept};version=3.1.0;q=-1\r\n"), 200),
        (format!("Accept: {}\r\n", ";,=/".repeat(2000)), 200),
        (format!("Accept: {accept};version=99999999999999999999.0.0\r\n"), 200),
        (format!("Accept: {accept};version=4.0.0\r\n"), 400),
        ("Accept: \u{e4}\u{fc}\r\n".to_owned(), 200),
        ("Authorization: Bearer\r\nAuthorization: Basic eDp5\r\n".to_owned(), 200),
        ("If-None-Match: \"\r\nAccept-Encoding: ,,,gzip;q=x\r\n".to_owned(), 200),
        ("Content-Length: -1\r\n".to_owned(), 400),
        // By the HTTP standard, chunked encoding takes precedence over a content length.
        ("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n".to_owned(), 200),
        ("No colon\r\n".to_owned(), 400),
        (" folded: x\r\n".to_owned(), 400),
        ("X\u{0}Y: z\r\n".to_owned(), 400),
    ] {
        let answer = talk(&world, get(&head).as_bytes()).await;
        let line = answer.lines().next().unwrap_or_default().to_owned();
        assert!(line.starts_with(&format!("HTTP/1.1 {status}")), "{head:?}: {line:?}");
    }
    assert_eq!(world.get("/healthz", "3.2.0").await.status(), 200);
}

#[tokio::test]
async fn a_pool_name_of_ten_megabytes_is_refused_and_harms_nobody() {
    let world = World::start(&plain_config());
    let request = format!("GET /config/{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(10_000_000));
    let answer = talk(&world, request.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 431"), "{:?}", &answer[..answer.len().min(80)]);
    assert_eq!(world.get("/healthz", "3.2.0").await.status(), 200);
}

#[tokio::test]
async fn a_broken_controller_config_is_named_and_nothing_of_it_is_shown() {
    let world = World::start(&plain_config());
    let path = world.folder.path().join("controller-config/machine-config-controller.yaml");
    for broken in ["spec: {kubeAPIServerServingCAData: '%%% not base64', pullSecret: hush}", "[", "", "spec: 3"] {
        std::fs::write(&path, broken).unwrap();
        let answer = world.get("/config/master", "3.2.0").await;
        assert_eq!(answer.status(), 500, "for {broken:?}");
        let body = answer.text().await.unwrap();
        assert!(body.contains("machine-config-controller.yaml") && !body.contains("hush"), "{body}");
    }
    std::fs::remove_file(&path).unwrap();
    assert_eq!(world.get("/config/master", "3.2.0").await.status(), 503);
}

#[tokio::test]
async fn idle_connections_do_not_keep_others_from_being_served() {
    let world = World::start(&plain_config());
    let mut held = Vec::new();
    for _ in 0..600 {
        held.push(TcpStream::connect(world.plain).await.unwrap());
    }
    let begin = std::time::Instant::now();
    assert_eq!(world.get("/config/master", "3.2.0").await.status(), 200);
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn a_bootstrap_host_asks_for_a_token_too_unless_it_is_opened() {
    let world = World::start_closed(&plain_config());
    let grant = serving::token::Grant { pool: "master".to_owned(), max_uses: Some(1), ..Default::default() };
    let token = serde_json::to_string(&serving::token::object(&grant, "first-secret")).unwrap();
    std::fs::create_dir(world.folder.path().join("bootstrap-tokens")).unwrap();
    std::fs::write(world.folder.path().join("bootstrap-tokens/one.yaml"), token).unwrap();
    std::fs::write(world.folder.path().join("bootstrap-tokens/broken.yaml"), "spec: [").unwrap();
    let ask = |secret: &str| world.client().get(world.url("/config/master")).bearer_auth(secret).send();
    assert_eq!(world.get("/config/master", "3.2.0").await.status(), 401);
    assert_eq!(ask("guess").await.unwrap().status(), 401);
    assert_eq!(ask("first-secret").await.unwrap().status(), 200);
    assert_eq!(ask("first-secret").await.unwrap().status(), 401, "it was for one use");
    let report = world.client().post(world.url("/report/master")).bearer_auth("first-secret");
    assert_eq!(report.body("{\"stage\":\"FirstBoot\"}").send().await.unwrap().status(), 202);
    let report = world.client().post(world.url("/report/master")).bearer_auth("guess");
    assert_eq!(report.body("{\"stage\":\"FirstBoot\"}").send().await.unwrap().status(), 401);
}

#[tokio::test]
async fn an_address_with_too_many_failures_is_throttled_but_valid_tokens_still_work() {
    let world = World::start_closed(&plain_config());
    let grant = serving::token::Grant { pool: "master".to_owned(), ..Default::default() };
    let token = serde_json::to_string(&serving::token::object(&grant, "good")).unwrap();
    std::fs::create_dir(world.folder.path().join("bootstrap-tokens")).unwrap();
    std::fs::write(world.folder.path().join("bootstrap-tokens/one.yaml"), token).unwrap();
    let client = world.client();
    let ask = |secret: &str| client.get(world.url("/config/master")).bearer_auth(secret).send();
    let mut last = 0;
    for number in 0..25 {
        let answer = ask(&format!("guess-{number}")).await.unwrap();
        last = answer.status().as_u16();
        assert_eq!(answer.headers().contains_key("retry-after"), last == 429);
    }
    assert_eq!(last, 429);
    assert_eq!(ask("good").await.unwrap().status(), 200, "machines behind one balancer have one address");
}

/// A ClientHello that offers at most this TLS version and one cipher.
fn hello(minor: u8, cipher: u16) -> Vec<u8> {
    let mut body = vec![3, minor];
    body.extend([7; 32]);
    // No session, one cipher, no compression.
    body.extend([0, 0, 2]);
    body.extend(cipher.to_be_bytes());
    body.extend([1, 0]);
    let length = u8::try_from(body.len()).unwrap();
    let mut record = vec![0x16, 3, 1, 0, length + 4, 1, 0, 0, length];
    record.extend(body);
    record
}

#[tokio::test]
async fn old_tls_and_weak_ciphers_are_turned_away_and_tls_1_2_is_served() {
    let world = World::start(&plain_config());
    // 1.1; then 1.2 with 3DES, with RC4, and without forward secrecy.
    for (minor, cipher) in [(2, 0xc013), (3, 0xc012), (3, 0xc011), (3, 0x009c)] {
        let mut stream = TcpStream::connect(world.secure).await.unwrap();
        stream.write_all(&hello(minor, cipher)).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        // An alert record with one fatal alert: no common version, or no common cipher.
        assert_eq!((answer[0], answer[5]), (0x15, 2), "3.{minor} {cipher:x}: {answer:?}");
        assert!([40, 70].contains(&answer[6]), "3.{minor} {cipher:x}: {answer:?}");
    }
    let certificate = std::fs::read(world.folder.path().join("tls.crt")).unwrap();
    let certificate = reqwest::Certificate::from_pem(&certificate).unwrap();
    let version = reqwest::tls::Version::TLS_1_2;
    let client = reqwest::Client::builder().tls_certs_only([certificate]).tls_version_max(version).build().unwrap();
    assert_eq!(client.get(world.url("/healthz")).send().await.unwrap().status(), 200);
}
