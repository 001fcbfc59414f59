//! `machineset-delete-order`: which machines are deleted first when a set is scaled down.

use api::machine::Machine;
use machine::set::{DeletePolicy, Member, priority, victims};
use serde_json::{Map, Value, json};

use super::judge::Judge;
use super::machines::{objects, time};

pub(crate) struct DeleteOrder;

impl Judge for DeleteOrder {
    fn file(&self) -> &'static str {
        "machineset-delete-order"
    }

    fn answer(&self, input: &Value) -> Result<Value, String> {
        let policy = input["deletePolicy"].as_str().unwrap_or_default();
        let policy: DeletePolicy = policy.parse().map_err(|error: machine::set::UnknownPolicy| error.to_string())?;
        let now = time(&input["now"])?;
        let machines: Vec<Machine> = objects(&input["machines"])?;
        let members: Vec<_> = machines.iter().map(|machine| Member::from_object(machine, "", |_| None)).collect();
        let kept: Vec<_> = members.iter().collect();
        let count = input["count"].as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
        let priorities: Map<_, _> =
            members.iter().map(|member| (member.name.clone(), json!(priority(member, policy, now)))).collect();
        let delete: Vec<_> = victims(&kept, policy, count, now).into_iter().map(|member| member.name.clone()).collect();
        Ok(json!({"priorities": priorities, "delete": delete}))
    }
}
