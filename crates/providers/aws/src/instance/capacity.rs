//! What an instance type offers, from AWS's catalogue.

use std::collections::BTreeMap;

use machine::provider::{Architecture, Capacity, Error, Request};

use super::{Aws, spec_of};
use crate::ec2::wire::InstanceType;

/// The catalogue changes when AWS builds something new, so an answer is kept for a day.
pub(super) async fn capacity(aws: &Aws, request: &Request) -> Result<Option<Capacity>, Error> {
    let spec = spec_of(&request.spec)?;
    if spec.instance_type.is_empty() {
        return Ok(None);
    }
    let client = aws.client(&spec, &request.secrets).await?;
    let key = (client.region().to_owned(), spec.instance_type.clone());
    if let Some(known) = aws.memory.capacity(&key) {
        return Ok(known);
    }
    let found = client.describe_instance_type(&spec.instance_type).await;
    let found = found.map_err(|fault| fault.error("cannot look for the instance type"))?;
    let capacity = found.as_ref().map(offer);
    aws.memory.learn(key, capacity.clone());
    Ok(capacity)
}

fn offer(instance_type: &InstanceType) -> Capacity {
    let architectures = &instance_type.processor_info.supported_architectures;
    let architecture = architectures.iter().find_map(|name| match name.as_str() {
        "x86_64" => Some(Architecture::Amd64),
        "arm64" => Some(Architecture::Arm64),
        _ => None,
    });
    Capacity {
        cpus: instance_type.v_cpu_info.default_v_cpus,
        memory_mib: instance_type.memory_info.size_in_mi_b,
        gpus: Some(instance_type.gpu_info.gpus.iter().map(|gpu| gpu.count).sum()),
        max_pods: None,
        architecture,
        labels: BTreeMap::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalogue_s_entry_is_read() {
        let text = "<item><vCpuInfo><defaultVCpus>4</defaultVCpus></vCpuInfo><memoryInfo><sizeInMiB>16384</sizeInMiB>\
                    </memoryInfo><gpuInfo><gpus><item><count>2</count></item></gpus></gpuInfo><processorInfo>\
                    <supportedArchitectures><item>i386</item><item>x86_64</item></supportedArchitectures></processorInfo>\
                    </item>";
        let offer = offer(&quick_xml::de::from_str(text).expect("well formed"));
        assert_eq!((offer.cpus, offer.memory_mib, offer.gpus), (4, 16384, Some(2)));
        assert_eq!(offer.architecture, Some(Architecture::Amd64));
    }
}
