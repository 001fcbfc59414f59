//! What each operation costs the server as the number of objects grows.

use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::{
    objects::{self, NODES, annotate, each, json_body},
    process::{Server, TOKEN},
    wire::{Connection, Protocol, STAMP, Seen, Wire, follow},
};

const SIZES: [usize; 3] = [1000, 10_000, 50_000];
const OPERATIONS: usize = 2000;
const WATCHES: usize = 500;
const DELIVERIES: usize = 300;

/// One row of the table: what, the figure at each size, and what it must be.
struct Row {
    what: &'static str,
    unit: &'static str,
    target: &'static str,
    figures: Vec<f64>,
}

pub(crate) async fn measure() {
    let mut rows: Vec<Row> = Vec::new();
    let divisor = if crate::nodes() < 10_000 { 10 } else { 1 };
    for size in SIZES.map(|size| size / divisor) {
        at(size, &mut rows).await;
    }
    let sizes = SIZES.map(|size| (size / divisor).to_string()).join(", ");
    for Row { what, unit, target, figures } in rows {
        let figures: Vec<String> = figures
            .iter()
            .map(|figure| if *figure < 10.0 { format!("{figure:.2}") } else { format!("{figure:.0}") })
            .collect();
        println!("bench: {what}, {sizes} nodes | {} {unit} | {target}", figures.join(", "));
    }
}

async fn at(size: usize, rows: &mut Vec<Row>) {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::spawn(folder.path());
    let wire = Wire::new(folder.path(), &server.url);
    let url = format!("{}{NODES}", server.url);
    let mut connection = wire.connect(Protocol::Two).await;
    let names = objects::names(size);
    let mut add = |what: &'static str, unit: &'static str, target: &'static str, figure: f64| match rows
        .iter_mut()
        .find(|row| row.what == what)
    {
        Some(row) => row.figures.push(figure),
        None => rows.push(Row { what, unit, target, figures: vec![figure] }),
    };
    let spent = |before: std::time::Duration, count: usize| (server.cpu() - before).as_secs_f64() * 1e6 / count as f64;

    let (cpu, memory) = (server.cpu(), server.memory());
    each(names.iter().enumerate(), |(number, name)| {
        json_body(server.client.post(&url).bearer_auth(TOKEN), &node(number, name))
    })
    .await;
    add("CPU per create", "µs", "flat", spent(cpu, size));
    add("memory per object, history and caches included", "KB", "-", (server.memory() - memory) * 1024.0 / size as f64);

    let chosen: Vec<&String> = (0..OPERATIONS).map(|turn| &names[turn * 7919 % size]).collect();
    let cpu = server.cpu();
    each(&chosen, |name| server.client.get(format!("{url}/{name}")).bearer_auth(TOKEN)).await;
    add("CPU per get", "µs", "flat", spent(cpu, OPERATIONS));

    let cpu = server.cpu();
    each(chosen.iter().enumerate(), |(turn, name)| {
        let body = json!({"metadata": {"annotations": {"turn": turn.to_string()}}}).to_string();
        let request = server.client.patch(format!("{url}/{name}")).bearer_auth(TOKEN);
        request.header("content-type", "application/merge-patch+json").body(body)
    })
    .await;
    add("CPU per update", "µs", "flat", spent(cpu, OPERATIONS));

    let lists = 50_000 / size.min(10_000);
    let cpu = server.cpu();
    for _ in 0..lists {
        assert_eq!(items(&mut connection, NODES).await.1, size);
    }
    add("CPU per listed object, whole list", "µs", "flat", spent(cpu, lists * size));
    let cpu = server.cpu();
    assert_eq!(pages(&mut connection, None).await, size);
    add("CPU per listed object, pages of 500", "µs", "flat", spent(cpu, size));
    let cpu = server.cpu();
    assert_eq!(pages(&mut connection, Some((&server, &url))).await, size);
    add("CPU per listed object, pages of 500 while nodes change", "µs", "flat", spent(cpu, size));
    for (what, selector, wanted) in [
        ("CPU per list by a label that 1 in 100 has", "labelSelector=bench%2Fgroup%3D7", size / 100),
        ("CPU per list by a field that 1 in 100 has", "fieldSelector=spec.unschedulable%3Dtrue", size / 100),
        ("CPU per list by name", "fieldSelector=metadata.name%3Dnode-00007", 1),
    ] {
        let cpu = server.cpu();
        for _ in 0..100 {
            assert_eq!(items(&mut connection, &format!("{NODES}?{selector}")).await.1, wanted);
        }
        let target = if wanted == 1 { "flat" } else { "-" };
        add(what, "µs", target, spent(cpu, 100));
    }
    watches(&server, &mut connection, &names, &mut add).await;
}

async fn watches(
    server: &Server,
    connection: &mut Connection,
    names: &[String],
    add: &mut impl FnMut(&'static str, &'static str, &'static str, f64),
) {
    let url = format!("{}{NODES}", server.url);
    let seen = Seen::new();
    let cpu = server.cpu();
    for turn in 0..WATCHES {
        let name = &names[turn * 7919 % names.len()];
        drop(connection.get(&format!("{NODES}?watch=true&fieldSelector=metadata.name%3D{name}")).await);
    }
    add("CPU per start of a watch by name", "µs", "flat", (server.cpu() - cpu).as_secs_f64() * 1e6 / WATCHES as f64);
    let (version, _) = items(connection, &format!("{NODES}?limit=1")).await;
    let open = connection.get(&format!("{NODES}?watch=true&resourceVersion={version}")).await;
    let one = connection
        .get(&format!("{NODES}?watch=true&fieldSelector=metadata.name%3D{}&resourceVersion={version}", names[0]))
        .await;
    follow(open, connection.again(), &seen);
    follow(one, connection.again(), &seen);
    let cpu = server.cpu();
    for _ in 0..DELIVERIES {
        annotate(&server.client, &format!("{url}/{}", names[0]), STAMP, &seen.stamp()).await;
    }
    seen.wait(2 * DELIVERIES).await;
    let delays = seen.take();
    add(
        "CPU per change and its delivery to two watchers",
        "µs",
        "flat",
        (server.cpu() - cpu).as_secs_f64() * 1e6 / DELIVERIES as f64,
    );
    add("delivery of a change, p50", "ms", "flat", delays.within(50.0));
    add("delivery of a change, p99", "ms", "flat", delays.within(99.0));
}

fn node(number: usize, name: &str) -> Value {
    let mut node = objects::node(name);
    node["metadata"]["labels"]["bench/group"] = (number % 100).to_string().into();
    if number.is_multiple_of(100) {
        node["spec"]["unschedulable"] = true.into();
    }
    node
}

/// The version of a list and how many items it has, without reading it all: the server is measured, not the client.
async fn items(connection: &mut Connection, path: &str) -> (String, usize) {
    let list = connection.get(path).await.collect().await.unwrap().to_bytes();
    let count = memory_count(&list, b"\"podCIDR\"");
    (metadata(&list, "resourceVersion").unwrap(), count)
}

async fn pages(connection: &mut Connection, changing: Option<(&Server, &String)>) -> usize {
    let (mut total, mut path) = (0, format!("{NODES}?limit=500"));
    loop {
        let list = connection.get(&path).await.collect().await.unwrap().to_bytes();
        total += memory_count(&list, b"\"podCIDR\"");
        if let Some((server, url)) = changing {
            annotate(&server.client, &format!("{url}/node-00001"), "page", &total.to_string()).await;
        }
        match metadata(&list, "continue") {
            Some(token) => path = format!("{NODES}?limit=500&continue={token}"),
            None => return total,
        }
    }
}

/// A field of the list's own metadata, which stands first.
fn metadata(list: &[u8], field: &str) -> Option<String> {
    let head = String::from_utf8_lossy(&list[..list.len().min(1000)]).into_owned();
    let (own, _) = head.split_once("\"items\"")?;
    let (_, rest) = own.split_once(&format!("\"{field}\":\""))?;
    Some(rest.split('"').next()?.to_owned())
}

fn memory_count(text: &[u8], word: &[u8]) -> usize {
    String::from_utf8_lossy(text).matches(std::str::from_utf8(word).unwrap()).count()
}
