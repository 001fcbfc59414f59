//! Makes a story that shows a difference smaller: whatever can go while the difference stays, goes.

use serde_json::Value;

pub(super) fn smallest(mut story: Value, mut differs: impl FnMut(&Value) -> bool) -> Value {
    loop {
        let mut places = Vec::new();
        collect(&story, &mut Vec::new(), &mut places);
        let smaller = places.iter().find_map(|place| {
            let mut candidate = story.clone();
            take(&mut candidate, place);
            (candidate["writes"].is_array() && differs(&candidate)).then_some(candidate)
        });
        match smaller {
            Some(smaller) => story = smaller,
            None => return story,
        }
    }
}

/// Every key and element below, the greater before the smaller, but for what makes a story a story.
fn collect(value: &Value, path: &mut Vec<String>, places: &mut Vec<Vec<String>>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(key, child)| (key.clone(), child)).collect(),
        Value::Array(list) => list.iter().enumerate().map(|(at, child)| (at.to_string(), child)).collect(),
        _ => return,
    };
    for (key, child) in children {
        // Half a list type is none at all.
        if key == "x-kubernetes-list-map-keys" {
            continue;
        }
        let kept = matches!(
            key.as_str(),
            "apply"
                | "manager"
                | "object"
                | "type"
                | "kind"
                | "apiVersion"
                | "metadata"
                | "schema"
                | "writes"
                | "items"
                | "x-kubernetes-list-type"
        ) || (key == "properties" && path.len() == 1);
        path.push(key);
        if !kept {
            places.push(path.clone());
        }
        collect(child, path, places);
        path.pop();
    }
}

fn take(value: &mut Value, place: &[String]) {
    let [steps @ .., last] = place else { return };
    let mut value = value;
    for step in steps {
        value = match value {
            Value::Object(map) => &mut map[step.as_str()],
            Value::Array(list) => &mut list[step.parse::<usize>().expect("a position")],
            _ => return,
        };
    }
    match value {
        Value::Object(map) => {
            map.remove(last);
        }
        Value::Array(list) => {
            list.remove(last.parse().expect("a position"));
        }
        _ => {}
    }
}
