//! Machines on Amazon EC2.
