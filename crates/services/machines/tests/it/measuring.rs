//! What Prometheus is told.

use std::net::TcpListener;

use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;
use testkit::{Kind, wait_until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::on_both;
use crate::stage::Stage;

on_both!(machines_and_sets_are_told_of_by_upstreams_names);

async fn machines_and_sets_are_told_of_by_upstreams_names(kind: Kind) {
    let Some(mut stage) = Stage::start(kind).await else { return };
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    stage.settings.listen = Some(address);
    let _controllers = stage.control();
    stage.create_set("worker", 1).await;
    stage.available("worker", 1).await;
    stage.create_machine("broken", json!({"spec": {"providerSpec": {"value": {"broken": true}}}})).await;
    stage.machine_is("broken", "failed", |machine| crate::stage::phase(machine) == Some("Failed")).await;
    let worker = stage.machines.list(&ListParams::default()).await.unwrap().items;
    let worker = worker.into_iter().find(|machine| machine.name_any() != "broken").unwrap();
    let worker = stage.running(&worker.name_any()).await;
    let (name, id) = (worker.name_any(), worker.spec.provider_id.clone().unwrap());
    let created = worker.metadata.creation_timestamp.unwrap().0.as_second();
    let wanted = [
        format!(
            r#"mapi_machine_created_timestamp_seconds{{name="{name}",namespace="openshift-machine-api",spec_provider_id="{id}",node="{name}",api_version="machine.openshift.io/v1beta1",phase="Running"}} {created}"#
        ),
        r#"mapi_machine_set_status_replicas{name="worker",namespace="openshift-machine-api"} 1"#.to_owned(),
        r#"mapi_machine_set_status_replicas_available{name="worker",namespace="openshift-machine-api"} 1"#.to_owned(),
        "mapi_machine_items 2".to_owned(),
        "mapi_machineset_items 1".to_owned(),
        r#"mapi_mao_collector_up{kind="mapi_machine_items"} 1"#.to_owned(),
        r#"mapi_instance_create_failed{name="broken",namespace="openshift-machine-api",reason="InvalidSpec"} 1"#
            .to_owned(),
        r#"mapi_machine_phase_transition_seconds_count{phase="Running"} 1"#.to_owned(),
    ];
    for line in &wanted {
        wait_until(line, || async move {
            let told = scrape(address).await;
            told.lines().any(|is| is == line).then_some(())
        })
        .await;
    }
}

pub(crate) async fn scrape(address: std::net::SocketAddr) -> String {
    let Ok(mut stream) = TcpStream::connect(address).await else { return String::new() };
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text).await;
    text
}
