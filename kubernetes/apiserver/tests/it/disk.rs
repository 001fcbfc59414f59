//! Files that are damaged, disks that are full, folders that are taken.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};

use apiserver::Server;
use serde_json::json;

use crate::{
    child::{Admin, Process},
    wire::Wire,
};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn filled(folder: &Path, count: usize) {
    let wire = Wire::of(Server::builder().data(folder).start().await.unwrap());
    for number in 0..count {
        let map = json!({"metadata": {"name": format!("m{number}")}, "data": {"fill": "y".repeat(3000)}});
        assert_eq!(wire.post(MAPS, &map).await.code, 201);
    }
    wire.server.shutdown().await;
}

#[tokio::test]
async fn what_was_written_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path(), 3).await;
    let before = fs::read_to_string(folder.path().join("kubeconfig")).unwrap();
    let wire = Wire::of(Server::builder().data(folder.path()).start().await.unwrap());
    let list = wire.get(MAPS).await.body;
    assert_eq!(list["items"].as_array().unwrap().len(), 4, "three and the root certificate");
    let after = fs::read_to_string(folder.path().join("kubeconfig")).unwrap();
    let authority = |text: &str| text.lines().find(|line| line.contains("authority")).unwrap().to_owned();
    assert_eq!(authority(&before), authority(&after), "the certificate authority is kept");
}

#[tokio::test]
async fn secrets_are_readable_by_their_owner_only() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path(), 0).await;
    for name in ["kubeconfig", "admin.token", "ca.key", "store.redb"] {
        let mode = fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[tokio::test]
async fn two_servers_do_not_share_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let first = Server::builder().data(folder.path()).start().await.unwrap();
    let second = Server::builder().data(folder.path()).start().await.err().unwrap().to_string();
    assert!(second.contains("is used by another process"), "{second}");
    first.shutdown().await;
    Server::builder().data(folder.path()).start().await.unwrap();
}

#[tokio::test]
async fn a_damaged_store_is_refused_and_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path(), 20).await;
    let path = folder.path().join("store.redb");
    let whole = fs::read(&path).unwrap();
    let mut refused = 0;
    let step = whole.len() / 24;
    let mut damages: Vec<Vec<u8>> = (0..24)
        .map(|place| {
            let mut damaged = whole.clone();
            let end = (place * step + 600).min(damaged.len());
            damaged[place * step..end].iter_mut().for_each(|byte| *byte ^= 0x5a);
            damaged
        })
        .collect();
    damages.push(whole[..whole.len() / 2].to_vec());
    damages.push(b"this was never a store".to_vec());
    for damaged in damages {
        fs::write(&path, &damaged).unwrap();
        match Server::builder().data(folder.path()).start().await {
            Err(error) => {
                refused += 1;
                let text = error.to_string();
                assert!(text.contains("store.redb") && text.contains("Nothing was changed"), "{text}");
                assert!(fs::read(&path).unwrap() == damaged, "a refused file was written to");
            }
            // The damage hit nothing that is used; then everything must be there.
            Ok(server) => {
                let wire = Wire::of(server);
                let list = wire.get(MAPS).await.body;
                for item in list["items"].as_array().unwrap().iter().filter(|item| item["data"]["fill"].is_string()) {
                    assert_eq!(item["data"]["fill"], "y".repeat(3000));
                }
                assert_eq!(list["items"].as_array().unwrap().len(), 21);
                wire.server.shutdown().await;
            }
        }
    }
    // The last two always are; how many of the others hit what is used differs from file to file.
    assert!(refused >= 3, "only {refused} damages were noticed");
    fs::write(&path, &whole).unwrap();
    Server::builder().data(folder.path()).start().await.unwrap();
}

#[tokio::test]
async fn a_full_disk_refuses_writes_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path(), 1).await;
    let size = fs::metadata(folder.path().join("store.redb")).unwrap().size();
    let blocks = u32::try_from(size / 512).unwrap() + 64;
    let process = Process::start(folder.path(), Some(blocks)).unwrap();
    let admin = Admin::of(folder.path());
    let url = format!("{}{MAPS}", process.server);
    let mut kept = Vec::new();
    let mut refusal = None;
    for number in 0..2000 {
        let name = format!("f{number}");
        let map = json!({"metadata": {"name": name}, "data": {"fill": "z".repeat(20_000)}});
        let (code, reply) = admin.send("POST", &url, "application/json", map.to_string()).await.unwrap();
        if code == 201 {
            kept.push(name);
        } else {
            refusal = Some((code, reply));
            break;
        }
    }
    let (code, reply) = refusal.expect("the disk fills up");
    assert_eq!(code, 500);
    let message = reply["message"].as_str().unwrap();
    assert!(message.contains("cannot write the store"), "{message}");
    let (code, list) = admin.send("GET", &url, "", String::new()).await.unwrap();
    assert_eq!((code, list["items"].as_array().unwrap().len()), (200, kept.len() + 2), "reads go on");
    process.kill();
    let process = Process::start(folder.path(), None).unwrap();
    let url = format!("{}{MAPS}", process.server);
    let (_, list) = admin.send("GET", &url, "", String::new()).await.unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), kept.len() + 2);
    let map = json!({"metadata": {"name": "later"}});
    assert_eq!(admin.send("POST", &url, "application/json", map.to_string()).await.unwrap().0, 201);
}
