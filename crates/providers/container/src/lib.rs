//! Machines that are systemd containers on this host.
