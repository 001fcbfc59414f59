//! Requests for remediation by another controller, made from a template of a kind that only that controller knows.

use std::collections::BTreeSet;

use cluster::error::if_found;
use cluster::write::in_time;
use cluster::{Problem, problem};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, PostParams};
use kube::{Client, Error, ResourceExt};
use serde_json::{Value, json};

/// Which template a request was made from, as other projects write it down.
const CLONED_FROM_NAME: &str = "cluster.x-k8s.io/cloned-from-name";
const CLONED_FROM_GROUP_KIND: &str = "cluster.x-k8s.io/cloned-from-groupkind";

/// The template of a check and the requests that exist.
pub(super) struct Requests {
    namespace: String,
    template: Option<DynamicObject>,
    /// The kind of the template.
    of: GroupVersionKind,
    /// The kind of the requests, if the API has it.
    resource: Option<ApiResource>,
    existing: BTreeSet<String>,
}

impl Requests {
    /// Reads the template and lists the requests. A kind or template that does not exist is no error.
    pub(super) async fn find(client: &Client, namespace: &str, template: &ObjectReference) -> Result<Self, Error> {
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        let (group, version) = match template.api_version.as_deref().unwrap_or_default().rsplit_once('/') {
            Some((group, version)) => (group.to_owned(), version.to_owned()),
            None => (String::new(), text(&template.api_version)),
        };
        let of = GroupVersionKind::gvk(&group, &version, &text(&template.kind));
        let kind = of.kind.strip_suffix("Template").unwrap_or(&of.kind).to_owned();
        let mut requests = Self {
            namespace: namespace.to_owned(),
            template: None,
            resource: resource(client, &GroupVersionKind::gvk(&group, &version, &kind)).await?,
            existing: BTreeSet::new(),
            of: of.clone(),
        };
        if let Some(kind) = resource(client, &of).await? {
            let home = template.namespace.as_deref().unwrap_or(namespace);
            let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), home, &kind);
            requests.template = if_found(in_time(api.get(&text(&template.name))).await)?;
        }
        if let Some(kind) = &requests.resource {
            let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, kind);
            let found = in_time(api.list(&ListParams::default())).await?;
            requests.existing = found.items.iter().map(ResourceExt::name_any).collect();
        }
        Ok(requests)
    }

    pub(super) fn template_exists(&self) -> bool {
        self.template.is_some() && self.resource.is_some()
    }

    pub(super) fn names(&self) -> BTreeSet<String> {
        self.existing.clone()
    }

    /// Makes the request for a Machine. One that exists already is fine.
    pub(super) async fn create(&self, client: &Client, machine: &str, uid: &str) -> Result<(), Error> {
        let (Some(template), Some(kind)) = (&self.template, &self.resource) else { return Ok(()) };
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &self.namespace, kind);
        let request = self.request(template, kind, machine, uid);
        let request: DynamicObject = serde_json::from_value(request).map_err(Error::SerdeError)?;
        match in_time(api.create(&PostParams::default(), &request)).await {
            Ok(_) => Ok(()),
            Err(error) if problem(&error) == Problem::Conflict => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn request(&self, template: &DynamicObject, kind: &ApiResource, machine: &str, uid: &str) -> Value {
        let mut request = template.data["spec"]["template"].clone();
        if !request.is_object() {
            request = json!({});
        }
        request["apiVersion"] = json!(kind.api_version);
        request["kind"] = json!(kind.kind);
        request["metadata"]["name"] = json!(machine);
        request["metadata"]["namespace"] = json!(self.namespace);
        request["metadata"]["ownerReferences"] = json!([{
            "apiVersion": format!("{}/{}", api::machine::GROUP, api::machine::VERSION),
            "kind": "Machine", "name": machine, "uid": uid,
        }]);
        request["metadata"]["annotations"][CLONED_FROM_NAME] = json!(template.name_any());
        request["metadata"]["annotations"][CLONED_FROM_GROUP_KIND] =
            json!(format!("{}.{}", self.of.kind, self.of.group));
        request
    }

    pub(super) async fn delete(&self, client: &Client, machine: &str) -> Result<(), Error> {
        let Some(kind) = &self.resource else { return Ok(()) };
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &self.namespace, kind);
        if_found(in_time(api.delete(machine, &DeleteParams::default())).await).map(|_| ())
    }
}

/// How the API calls a kind, if it has it.
async fn resource(client: &Client, kind: &GroupVersionKind) -> Result<Option<ApiResource>, Error> {
    match kube::discovery::oneshot::pinned_kind(client, kind).await {
        Ok((resource, _)) => Ok(Some(resource)),
        Err(Error::Discovery(_)) => Ok(None),
        Err(error) if problem(&error) == Problem::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
