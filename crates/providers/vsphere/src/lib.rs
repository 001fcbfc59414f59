//! Machines on VMware vSphere.
