//! Carries a plan out: MachineConfigs first, then the objects that they are made from, then events.
//!
//! Every write names the version it was planned on. Where somebody was faster the write is refused, and the next plan knows.

use std::fmt::Debug;

use api::annotations::{IGNORED, KEPT_INPUTS};
use api::config::{ApiServer, ClusterImagePolicy, FeatureGate, Image, ImagePolicy, Node};
use api::machineconfiguration::{
    ContainerRuntimeConfig, ControllerConfig, KubeletConfig, MachineConfig, MachineOSBuild, MachineOSConfig,
    PinnedImageSet,
};
use api::machinist::{KeptConfig, KeptConfigSpec};
use api::operator::MachineConfiguration;
use cluster::error::if_found;
use cluster::events::Severity;
use cluster::write;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use kube::core::ClusterResourceScope;
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use typed::plan::{Event, Object, Plan, Update};

use super::seen::find;
use super::{COMPONENT, Error, Generate, MANAGER};
use crate::world::bare_resource;

impl Generate {
    pub(super) async fn apply(&self, plan: Plan) -> Result<(), Error> {
        let Plan { apply, delete, updates, events, kept: _, originals, inputs } = plan;
        // A write that is refused stops no other of its stage. Later stages rely on earlier ones: what was not written must
        // not be told as a success, and its predecessor must not go.
        let mut stage = Ok(());
        for (name, kept) in originals {
            stage = stage.and(self.remember(&name, kept).await.map_err(|source| Error::Remember { name, source }));
        }
        for config in apply {
            let name = config.name_any();
            stage = stage.and(self.put(config).await.map_err(|source| Error::WriteConfig { name, source }));
        }
        for (name, fingerprint) in inputs {
            let noted = self.note_inputs(&name, &fingerprint).await;
            stage = stage.and(noted.map_err(|source| Error::WriteConfig { name, source }));
        }
        stage?;
        let mut stage = Ok(());
        for name in delete {
            stage = stage.and(self.remove(&name).await.map_err(|source| Error::DeleteConfig { name, source }));
        }
        stage?;
        let mut stage = Ok(());
        for update in updates {
            let (kind, name) = (update.object.kind, update.object.name.clone());
            stage = stage.and(self.update(update).await.map_err(|source| Error::WriteSource { kind, name, source }));
        }
        stage?;
        for event in events {
            self.tell(event);
        }
        Ok(())
    }

    /// Writes the whole object: a field that somebody added to a generated MachineConfig has to go again. Labels and
    /// annotations of others stay.
    async fn put(&self, desired: MachineConfig) -> Result<(), kube::Error> {
        let name = desired.name_any();
        let api: Api<MachineConfig> = Api::all(self.context.world.client.clone());
        let parameters = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        let written = match self.context.world.configs.named(&name) {
            None => write::in_time(api.create(&parameters, &desired)).await?,
            Some(present) => {
                let mut config = (*present).clone();
                config.metadata.labels.get_or_insert_default().extend(desired.metadata.labels.unwrap_or_default());
                let notes = config.metadata.annotations.get_or_insert_default();
                notes.extend(desired.metadata.annotations.unwrap_or_default());
                config.metadata.owner_references = desired.metadata.owner_references;
                config.spec = desired.spec;
                write::in_time(api.replace(&name, &parameters, &config)).await?
            }
        };
        self.written.wrote(Object::new("MachineConfig", &name), &written.metadata);
        self.context.metrics.wrote("MachineConfig");
        self.context.metrics.worked(COMPONENT, "Sync Generated MachineConfig", &name);
        tracing::info!(config = name, "generated");
        Ok(())
    }

    /// Remembers what a MachineConfig of another controller says, so that an edit of it can be taken back. Where somebody was
    /// faster the write is refused, and the next plan sees what that one remembered.
    async fn remember(&self, name: &str, spec: KeptConfigSpec) -> Result<(), kube::Error> {
        let api: Api<KeptConfig> = Api::all(self.context.world.client.clone());
        let parameters = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        let mut kept = KeptConfig::new(name, spec);
        let object = Object::new("KeptConfig", name);
        let written = match find(&self.context.world, &object) {
            None => write::in_time(api.create(&parameters, &kept)).await,
            Some(present) => {
                kept.metadata.resource_version = present.resource_version;
                write::in_time(api.replace(name, &parameters, &kept)).await
            }
        };
        let written = if_found(written)?;
        if written.is_none() {
            // An upgrade may bring the kind after the controller; everything else goes on without it.
            tracing::warn!(config = name, "KeptConfigs are not installed; an edit of this MachineConfig stays");
        }
        self.noted(&object, written.as_ref());
        Ok(())
    }

    /// Forgets MachineConfigs of another controller that are ours by now, or gone.
    pub(super) async fn forget(&self, outdated: &[String]) -> Result<(), Error> {
        let api: Api<KeptConfig> = Api::all(self.context.world.client.clone());
        for name in outdated {
            let object = Object::new("KeptConfig", name);
            let uid = find(&self.context.world, &object).and_then(|present| present.uid);
            let exactly = Preconditions { uid: uid.clone(), resource_version: None };
            let parameters = DeleteParams { preconditions: Some(exactly), ..DeleteParams::default() };
            let deleted = if_found(write::in_time(api.delete(name, &parameters)).await);
            deleted.map_err(|source| Error::Remember { name: name.clone(), source })?;
            self.written.deleted(object, uid);
        }
        Ok(())
    }

    /// Notes on a MachineConfig of another controller what it was made from, so that a change of that is noticed.
    async fn note_inputs(&self, name: &str, fingerprint: &str) -> Result<(), kube::Error> {
        let api: Api<MachineConfig> = Api::all(self.context.world.client.clone());
        let Some(present) = self.context.world.configs.named(name) else { return Ok(()) };
        let notes = json!({KEPT_INPUTS: fingerprint});
        let metadata = json!({"resourceVersion": present.metadata.resource_version, "annotations": notes});
        let written = if_found(write::merge(&api, MANAGER, name, &json!({"metadata": metadata})).await)?;
        self.noted(&Object::new("MachineConfig", name), written.as_ref());
        Ok(())
    }

    async fn remove(&self, name: &str) -> Result<(), kube::Error> {
        let api: Api<MachineConfig> = Api::all(self.context.world.client.clone());
        let uid = self.context.world.configs.named(name).and_then(|config| config.metadata.uid.clone());
        let exactly = Preconditions { uid: uid.clone(), resource_version: None };
        let parameters = DeleteParams { preconditions: Some(exactly), ..DeleteParams::default() };
        if_found(write::in_time(api.delete(name, &parameters)).await)?;
        self.written.deleted(Object::new("MachineConfig", name), uid);
        tracing::info!(config = name, "removed a generated MachineConfig that nothing asks for");
        Ok(())
    }

    async fn update(&self, update: Update) -> Result<(), kube::Error> {
        let client = self.context.world.client.clone();
        match update.object.kind {
            "KubeletConfig" => self.write(&cluster_wide::<KubeletConfig>(client), update).await,
            "ContainerRuntimeConfig" => self.write(&cluster_wide::<ContainerRuntimeConfig>(client), update).await,
            "ControllerConfig" => self.write(&cluster_wide::<ControllerConfig>(client), update).await,
            "Node" => self.write(&cluster_wide::<Node>(client), update).await,
            "FeatureGate" => self.write(&cluster_wide::<FeatureGate>(client), update).await,
            "APIServer" => self.write(&cluster_wide::<ApiServer>(client), update).await,
            "Image" => self.write(&cluster_wide::<Image>(client), update).await,
            "ClusterImagePolicy" => self.write(&cluster_wide::<ClusterImagePolicy>(client), update).await,
            "ImagePolicy" => {
                let namespace = update.object.namespace.clone().unwrap_or_default();
                self.write(&namespaced::<ImagePolicy>(client, &namespace), update).await
            }
            "PinnedImageSet" => self.write(&cluster_wide::<PinnedImageSet>(client), update).await,
            "MachineOSConfig" => self.write(&cluster_wide::<MachineOSConfig>(client), update).await,
            "MachineOSBuild" => self.write(&cluster_wide::<MachineOSBuild>(client), update).await,
            "MachineConfiguration" => self.write(&cluster_wide::<MachineConfiguration>(client), update).await,
            kind if self.context.world.typed.bare(kind).is_some() => {
                let resource = bare_resource(kind);
                let api: Api<DynamicObject> = match &update.object.namespace {
                    Some(namespace) => Api::namespaced_with(client, namespace, &resource),
                    None => Api::all_with(client, &resource),
                };
                self.write(&api, update).await
            }
            other => {
                tracing::error!(kind = other, "no planner should ask for an update of this kind");
                Ok(())
            }
        }
    }

    /// Metadata and status are two writes, because status is a subresource.
    async fn write<K>(&self, api: &Api<K>, update: Update) -> Result<(), kube::Error>
    where
        K: Resource + Clone + DeserializeOwned + Debug,
    {
        let Update { object, annotations, finalizers, status } = update;
        if !annotations.is_empty() || finalizers.is_some() {
            let mut metadata = json!({});
            // The list of finalizers is written whole, so it must not meet a version with others.
            if let Some(version) = find(&self.context.world, &object).and_then(|present| present.resource_version) {
                metadata["resourceVersion"] = version.into();
            }
            if !annotations.is_empty() {
                // The sentence about an object that has an effect again goes.
                let shown = |(key, value): (&String, &String)| {
                    let is_over = key == IGNORED && value.is_empty();
                    (key.clone(), if is_over { Value::Null } else { json!(value) })
                };
                metadata["annotations"] = Value::Object(annotations.iter().map(shown).collect());
            }
            if let Some(finalizers) = finalizers {
                metadata["finalizers"] = json!(finalizers);
            }
            let written = if_found(write::merge(api, MANAGER, &object.name, &json!({"metadata": metadata})).await)?;
            self.noted(&object, written.as_ref());
        }
        if let Some(status) = status {
            let written = if_found(put_status(api, &object.name, status).await)?;
            self.noted(&object, written.as_ref());
        }
        Ok(())
    }

    fn noted<K: Resource>(&self, object: &Object, written: Option<&K>) {
        self.context.metrics.wrote(object.kind);
        match written.map(Resource::meta) {
            // The last finalizer was taken off: what came back is what is gone.
            Some(metadata) if is_finished(metadata) => self.written.deleted(object.clone(), metadata.uid.clone()),
            Some(metadata) => self.written.wrote(object.clone(), metadata),
            None => {}
        }
    }

    fn tell(&self, event: Event) {
        let Event { about, is_warning, reason, message } = event;
        let namespace = about.namespace.clone().unwrap_or_else(|| self.context.settings.namespace.clone());
        let reference = ObjectReference {
            api_version: Some(api_version(about.kind).to_owned()),
            kind: Some(about.kind.to_owned()),
            uid: find(&self.context.world, &about).and_then(|present| present.uid),
            name: Some(about.name),
            namespace: Some(namespace),
            ..ObjectReference::default()
        };
        let severity = if is_warning { Severity::Warning } else { Severity::Normal };
        self.events.publish_about(reference, severity, reason, &message);
    }
}

fn is_finished(metadata: &kube::api::ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_some() && metadata.finalizers.iter().flatten().count() == 0
}

async fn put_status<K>(api: &Api<K>, name: &str, status: Value) -> Result<K, kube::Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    write::in_time(api.patch_status(name, &parameters, &Patch::Merge(json!({"status": status})))).await
}

fn api_version(kind: &str) -> &'static str {
    match kind {
        "MachineConfig" | "ControllerConfig" | "KubeletConfig" | "ContainerRuntimeConfig" => {
            "machineconfiguration.openshift.io/v1"
        }
        "MachineOSConfig" | "MachineOSBuild" | "PinnedImageSet" => "machineconfiguration.openshift.io/v1",
        "MachineConfiguration" => "operator.openshift.io/v1",
        "Cluster" | "Machine" | "MachineSet" | "MachineDeployment" => "cluster.k8s.io/v1alpha1",
        "ImageContentSourcePolicy" => "operator.openshift.io/v1alpha1",
        _ => "config.openshift.io/v1",
    }
}

fn cluster_wide<K>(client: kube::Client) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = ClusterResourceScope>,
{
    Api::all(client)
}

fn namespaced<K>(client: kube::Client, namespace: &str) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    Api::namespaced(client, namespace)
}
