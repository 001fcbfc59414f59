//! Tags, which only vCenter's REST interface knows. It has a session of its own.

use serde_json::{Value, json};

use super::{Client, Fault, Reference, http};

const SESSION: &str = "/rest/com/vmware/cis/session";
const ASSOCIATION: &str = "/rest/com/vmware/cis/tagging/tag-association";

impl Client {
    /// Puts tags on a machine, all of them at once. Those that it has stay.
    pub(crate) async fn attach_tags(&self, vm: &Reference, tags: &[String]) -> Result<(), Fault> {
        for tag in tags {
            let object = json!({"object_id": {"type": vm.kind, "id": vm.value}});
            self.rest(&format!("{ASSOCIATION}/id:{tag}?~action=attach"), &object).await?;
        }
        Ok(())
    }

    async fn rest(&self, path: &str, body: &Value) -> Result<Value, Fault> {
        let session = self.rest_session().await?;
        match self.rest_exchange(path, body, &session).await {
            Err(fault) if fault.is_session_over() => {}
            answer => return answer,
        }
        self.rest.lock().await.take_if(|kept| *kept == session);
        let session = self.rest_session().await?;
        self.rest_exchange(path, body, &session).await
    }

    async fn rest_session(&self) -> Result<String, Fault> {
        let mut kept = self.rest.lock().await;
        if let Some(session) = kept.as_ref() {
            return Ok(session.clone());
        }
        let request = self.http.post(format!("{}{SESSION}", self.url)).basic_auth(&self.user, Some(&self.password));
        let answer = self.rest_answer(request).await?;
        let session = answer["value"].as_str().unwrap_or_default().to_owned();
        if session.is_empty() {
            return Err(Fault::Unreadable("a login without a session".to_owned()));
        }
        *kept = Some(session.clone());
        Ok(session)
    }

    async fn rest_exchange(&self, path: &str, body: &Value, session: &str) -> Result<Value, Fault> {
        let request = self.http.post(format!("{}{path}", self.url)).json(body);
        self.rest_answer(request.header("vmware-api-session-id", session)).await
    }

    async fn rest_answer(&self, request: reqwest::RequestBuilder) -> Result<Value, Fault> {
        let response = request.send().await.map_err(|error| Fault::Unreachable(http::words(error)))?;
        let status = response.status().as_u16();
        let text = http::read(response).await.map_err(Fault::Unreachable)?;
        let answer: Value = serde_json::from_str(&text).unwrap_or_default();
        match status {
            200..300 => Ok(answer),
            _ => Err(refusal(status, &answer)),
        }
    }
}

/// The REST interface has other names for the same faults.
fn refusal(status: u16, answer: &Value) -> Fault {
    let kind = answer["type"].as_str().and_then(|kind| kind.rsplit('.').next()).unwrap_or_default();
    let words: Vec<&str> = answer["value"]["messages"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|message| message["default_message"].as_str())
        .collect();
    let name = match (kind, status) {
        ("unauthenticated", _) | (_, 401) => "NotAuthenticated",
        ("unauthorized", _) | (_, 403) => "NoPermission",
        ("not_found", _) | (_, 404) => "NotFound",
        ("invalid_argument", _) => "InvalidArgument",
        (_, 500..) => return Fault::Unreachable(format!("HTTP status {status} from the interface of tags")),
        _ => "Fault",
    };
    let message = if words.is_empty() { format!("HTTP status {status}") } else { words.join(" ") };
    Fault::Refused { name: name.to_owned(), message, operation: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_the_rest_interface_have_the_names_of_faults() {
        let answer = json!({"type": "com.vmware.vapi.std.errors.not_found",
            "value": {"messages": [{"default_message": "no such tag"}]}});
        assert_eq!(refusal(404, &answer).to_string(), "NotFound: no such tag");
        assert!(refusal(401, &Value::Null).is_session_over());
        assert!(matches!(refusal(503, &Value::Null), Fault::Unreachable(_)));
    }
}
