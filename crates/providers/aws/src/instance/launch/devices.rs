//! The block devices of a launch.

use machine::provider::{Error, ErrorKind};

use crate::client::Params;
use crate::spec::{BlockDevice, Ebs};

/// An entry without a name is the root device, of which there is one.
pub(super) fn push(params: &mut Params, devices: &[BlockDevice], root: &str) -> Result<(), Error> {
    let mut number = 0;
    let mut has_root = false;
    for (index, device) in devices.iter().enumerate() {
        if device.ebs.is_none() && device.no_device.is_none() && device.virtual_name.is_none() {
            continue;
        }
        let name = match &device.device_name {
            Some(name) => name.as_str(),
            None if !has_root && device.ebs.is_some() => {
                has_root = true;
                root
            }
            None => {
                let message =
                    format!("providerSpec.blockDevices[{index}].deviceName: only the root device has no name");
                return Err(Error::new(ErrorKind::InvalidSpec, message));
            }
        };
        number += 1;
        let prefix = format!("BlockDeviceMapping.{number}");
        params.push(format!("{prefix}.DeviceName"), name);
        match (&device.ebs, &device.no_device, &device.virtual_name) {
            (Some(ebs), _, _) => push_volume(params, &prefix, ebs),
            // The value of `NoDevice` is always empty.
            (None, Some(_), _) => params.push(format!("{prefix}.NoDevice"), ""),
            (None, None, store) => params.push_some(format!("{prefix}.VirtualName"), store.as_ref()),
        }
    }
    Ok(())
}

fn push_volume(params: &mut Params, prefix: &str, ebs: &Ebs) {
    let Ebs { delete_on_termination: _, encrypted, kms_key, iops, throughput_mib, volume_size, volume_type } = ebs;
    // A volume that outlives its machine belongs to nobody.
    params.push(format!("{prefix}.Ebs.DeleteOnTermination"), true);
    params.push_some(format!("{prefix}.Ebs.VolumeSize"), *volume_size);
    params.push_some(format!("{prefix}.Ebs.VolumeType"), volume_type.as_ref());
    params.push_some(format!("{prefix}.Ebs.Encrypted"), *encrypted);
    let key = [&kms_key.id, &kms_key.arn].into_iter().flatten().find(|key| !key.is_empty());
    params.push_some(format!("{prefix}.Ebs.KmsKeyId"), key);
    // Installers write 0 where they mean AWS's default, and AWS refuses both on types that have neither.
    let volume_type = volume_type.as_deref().unwrap_or_default();
    if matches!(volume_type, "io1" | "io2" | "gp3") {
        params.push_some(format!("{prefix}.Ebs.Iops"), iops.filter(|iops| *iops > 0));
    }
    if volume_type == "gp3" {
        params.push_some(format!("{prefix}.Ebs.Throughput"), throughput_mib.filter(|throughput| *throughput > 0));
    }
}
