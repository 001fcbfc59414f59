//! The process dies right after each of its writes and calls in turn. Nothing is made twice and nothing is left behind.

use serde_json::json;
use testkit::{Kind, wait_for};

use crate::on_both;
use crate::stage::Stage;
use crate::wire::Life;

on_both!(a_creation_survives_death_at_every_step, a_deletion_survives_death_at_every_step);

async fn a_creation_survives_death_at_every_step(kind: Kind) {
    let Some(stage) = Stage::start(kind).await else { return };
    for step in 1.. {
        let name = format!("m{step}");
        let first = stage.control_until(Life::until(step));
        stage.create_machine(&name, json!({})).await;
        let survived = tokio::select! {
            () = first.life.died() => false,
            _ = stage.running(&name) => true,
        };
        first.kill().await;
        let second = stage.control();
        let machine = stage.running(&name).await;
        second.kill().await;
        let account = stage.account.lock().unwrap();
        assert_eq!(account.doubles.len(), 0, "two instances at once after step {step}");
        let own: Vec<_> = account.entries.iter().filter(|entry| entry.mark.machine == name).collect();
        assert_eq!(own.len(), 1, "step {step}");
        assert_eq!(machine.spec.provider_id.as_ref(), Some(&own[0].id), "step {step}");
        if survived {
            assert!(step > 5, "there are more steps than {step}");
            assert_eq!(account.entries.len(), step, "one instance for each machine");
            return;
        }
    }
}

async fn a_deletion_survives_death_at_every_step(kind: Kind) {
    let Some(stage) = Stage::start(kind).await else { return };
    for step in 1.. {
        let name = format!("m{step}");
        let before = stage.control();
        stage.create_machine(&name, json!({})).await;
        stage.running(&name).await;
        // The link is the last thing to be written; a machine that goes before would not find its node.
        wait_for(&stage.nodes, &name, "the link", |node| {
            let annotations = node.and_then(|node| node.metadata.annotations.as_ref());
            annotations.is_some_and(|all| all.contains_key(api::annotations::MACHINE))
        })
        .await;
        before.kill().await;
        let first = stage.control_until(Life::until(step));
        stage.delete_machine(&name).await;
        let survived = tokio::select! {
            () = first.life.died() => false,
            () = stage.machine_gone(&name) => true,
        };
        first.kill().await;
        let second = stage.control();
        stage.machine_gone(&name).await;
        second.kill().await;
        assert_eq!(stage.instances(), Vec::<String>::new(), "an orphan after step {step}");
        assert!(stage.nodes.get_opt(&name).await.unwrap().is_none(), "a node without a machine after step {step}");
        if survived {
            assert!(step > 4, "there are more steps than {step}");
            return;
        }
    }
}
