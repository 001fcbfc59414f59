//! What a machine's domain, disk and address look like.

use machine::provider::{Power, PowerWish, Provider, State};
use serde_json::json;

use crate::world::{USER_DATA, World};

#[tokio::test]
async fn a_machine_gets_a_domain_a_disk_on_the_base_its_config_and_an_address() {
    let Some(world) = World::start("whole").await else { return };
    let spec = world.spec_with("autostart", json!(true));
    let request = world.machine("m", &spec);
    let made = world.create(&request).await.unwrap();
    assert_eq!((made.state, made.power), (State::Running, Power::On));
    assert!(made.provider_id.unwrap().starts_with("libvirt:///"));

    let names = &request.intent.as_ref().unwrap().children;
    let domain = world.ask(&["dumpxml", "whole-m"]);
    for part in [
        format!("volume='{}'", names["disk"]),
        format!("file='{}'", world.folder.join(&names["boot"]).display()),
        "name='opt/com.coreos/config'".to_owned(),
        "uid=\"uid-whole-m\"".to_owned(),
        "stage=\"made\"".to_owned(),
        "<memory unit='KiB'>2097152</memory>".to_owned(),
    ] {
        assert!(domain.contains(&part), "no {part} in {domain}");
    }
    assert!(world.ask(&["dominfo", "whole-m"]).contains("Autostart:      enable"));
    let disk = world.store(&["vol-dumpxml", &names["disk"], "--pool", "whole"]);
    assert!(disk.contains(&format!("<path>{}</path>", world.folder.join("base").display())), "{disk}");
    assert!(disk.contains("<capacity unit='bytes'>17706254336</capacity>"), "{disk}");
    assert_eq!(std::fs::read_to_string(world.folder.join(&names["boot"])).unwrap(), USER_DATA);
    assert!(world.network().contains("name='whole-m' ip='10.7.0.51'"), "{}", world.network());

    world.provider.delete(&request).await.unwrap();
    world.assert_empty("after deletion");
}

#[tokio::test]
async fn no_argument_shows_user_data() {
    let Some(world) = World::start("quiet").await else { return };
    world.create(&world.machine("m", &world.spec())).await.unwrap();
    let calls = world.edge.calls();
    assert!(calls.iter().any(|call| call.input == USER_DATA.as_bytes()));
    assert!(!calls.iter().flat_map(|call| &call.arguments).any(|argument| argument.contains(USER_DATA)));
}

#[tokio::test]
async fn a_disk_is_as_large_as_asked_and_never_smaller_than_its_base() {
    let Some(world) = World::start("sizes").await else { return };
    for (name, size, expected) in [("small", "1Mi", 1_u64 << 30), ("large", "3Gi", 3 << 30)] {
        let volume = json!({"poolName": "sizes", "baseVolumeID": world.folder.join("base"), "volumeSize": size});
        let request = world.machine(name, &world.spec_with("volume", volume));
        world.create(&request).await.unwrap();
        let disk = world.store(&["vol-dumpxml", &request.intent.unwrap().children["disk"], "--pool", "sizes"]);
        assert!(disk.contains(&format!("<capacity unit='bytes'>{expected}</capacity>")), "{disk}");
    }
}

#[tokio::test]
async fn cloud_init_reads_a_disk_with_its_label() {
    let Some(world) = World::start("cloud").await else { return };
    let mut spec = world.spec_with("cloudInit", json!({"userDataSecret": "worker-user-data"}));
    spec["ignition"] = json!(null);
    let request = world.machine("m", &spec);
    world.create(&request).await.unwrap();
    let image = std::fs::read(world.folder.join(&request.intent.as_ref().unwrap().children["boot"])).unwrap();
    let contains = |text: &str| image.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(contains("cidata") && contains(USER_DATA) && contains("local-hostname: cloud-m"));
    assert!(world.ask(&["dumpxml", "cloud-m"]).contains("<readonly/>"));
}

#[tokio::test]
async fn ign_key_names_a_volume_that_stays() {
    let Some(world) = World::start("key").await else { return };
    world.store(&["vol-create-as", "key", "shared.ign", "10"]);
    let path = world.folder.join("shared.ign").display().to_string();
    let mut spec = world.spec_with("ignKey", json!(path));
    spec["ignition"] = json!(null);
    let request = world.machine("m", &spec);
    world.create(&request).await.unwrap();
    assert!(world.ask(&["dumpxml", "key-m"]).contains(&format!("file='{path}'")));
    world.provider.delete(&request).await.unwrap();
    assert_eq!(world.volumes(), ["shared.ign"]);
}

#[tokio::test]
async fn each_machine_gets_its_own_address_even_at_the_same_moment() {
    let Some(world) = World::start("addresses").await else { return };
    let requests: Vec<_> = (0..4).map(|number| world.machine(&number.to_string(), &world.spec())).collect();
    let made = futures::future::join_all(requests.iter().map(|request| world.create(request))).await;
    made.into_iter().for_each(|made| drop(made.unwrap()));
    let network = world.network();
    for number in 51..55 {
        assert!(network.contains(&format!("ip='10.7.0.{number}'")), "{network}");
    }
    let again = world.restarted();
    again.delete(&requests[0]).await.unwrap();
    assert_eq!(world.network().matches("<host").count(), 3);
}

#[tokio::test]
async fn power_is_switched_and_a_domain_that_is_off_is_still_there() {
    let Some(world) = World::start("power").await else { return };
    let request = world.machine("m", &world.spec());
    world.create(&request).await.unwrap();
    for (wish, state) in [(PowerWish::Off, State::Stopped), (PowerWish::On, State::Running)] {
        world.provider.switch_power(&request, wish).await.unwrap();
        let seen = world.look(&request).await;
        assert_eq!(seen.into_iter().map(|it| it.state).collect::<Vec<_>>(), [state]);
    }
}
