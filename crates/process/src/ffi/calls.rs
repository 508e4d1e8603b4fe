//! The system calls that an observer looks at, and those that observed and confined programs are refused.
//!
//! Every call is in one of these lists, or names no file and reaches no other process; the tests have the reason for each.

/// A call that names a file or another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// Opens a file with these flags.
    Open { flags: libc::c_int },
    /// Opens a file by a path in which `/` and `..` mean a directory that the call names.
    OpenInRoot,
    /// Executes it.
    Exec,
    /// Reads its properties, or whether it exists.
    Look,
    /// Renames it, or gives it a second name: then its content is at that name.
    Rename,
    /// Creates a directory, unless the path exists.
    MakeDirectory,
    /// Creates a link, a pipe or a device, unless the path exists.
    MakeSpecial,
    /// Changes the length of a file.
    Truncate,
    /// Removes a file or an empty directory.
    Remove,
    /// Changes the mode, the owner or the dates of a file.
    Change,
    /// Changes the extended attributes of a file.
    SetAttribute,
    /// Names the other end of a socket.
    Connect,
    /// Gives a socket an address.
    Bind,
}

/// The positions of the arguments that name a file: its directory's descriptor, and its name. Without a name, the descriptor is the file.
#[derive(Clone, Copy)]
pub(super) struct Arguments {
    pub(super) dir: Option<usize>,
    pub(super) name: Option<usize>,
}

const AT: Arguments = Arguments { dir: Some(0), name: Some(1) };
const PLAIN: Arguments = Arguments { dir: None, name: Some(0) };
const SECOND: Arguments = Arguments { dir: None, name: Some(1) };
const DESCRIPTOR: Arguments = Arguments { dir: Some(0), name: None };

/// Calls that `libc` does not name for every architecture.
const RENAMEAT: libc::c_long = if cfg!(target_arch = "x86_64") { 264 } else { 38 };
const FCHMODAT2: libc::c_long = 452;

/// The calls that wait. The arguments alone show which file a call opens or looks at, and which process it reaches.
#[rustfmt::skip]
pub(super) const WATCHED: &[libc::c_long] = &[
    libc::SYS_openat, libc::SYS_openat2, libc::SYS_execve, libc::SYS_execveat, libc::SYS_faccessat,
    libc::SYS_faccessat2, libc::SYS_newfstatat, libc::SYS_statx, libc::SYS_readlinkat, libc::SYS_chdir,
    libc::SYS_linkat, libc::SYS_renameat2, libc::SYS_statfs, libc::SYS_mkdirat, libc::SYS_mknodat,
    libc::SYS_symlinkat, libc::SYS_truncate, libc::SYS_unlinkat, libc::SYS_inotify_add_watch,
    libc::SYS_name_to_handle_at, libc::SYS_fchmod, libc::SYS_fchmodat, FCHMODAT2, libc::SYS_fchown,
    libc::SYS_fchownat, libc::SYS_utimensat, libc::SYS_setxattr, libc::SYS_lsetxattr, libc::SYS_removexattr,
    libc::SYS_lremovexattr, libc::SYS_connect, libc::SYS_bind, libc::SYS_sendto, libc::SYS_sendmsg,
    libc::SYS_sendmmsg, RENAMEAT,
    #[cfg(target_arch = "x86_64")] libc::SYS_link,
    #[cfg(target_arch = "x86_64")] libc::SYS_rename,
    #[cfg(target_arch = "x86_64")] libc::SYS_open,
    #[cfg(target_arch = "x86_64")] libc::SYS_access,
    #[cfg(target_arch = "x86_64")] libc::SYS_stat,
    #[cfg(target_arch = "x86_64")] libc::SYS_lstat,
    #[cfg(target_arch = "x86_64")] libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")] libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")] libc::SYS_creat,
    #[cfg(target_arch = "x86_64")] libc::SYS_mknod,
    #[cfg(target_arch = "x86_64")] libc::SYS_symlink,
    #[cfg(target_arch = "x86_64")] libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")] libc::SYS_rmdir,
    #[cfg(target_arch = "x86_64")] libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")] libc::SYS_chown,
    #[cfg(target_arch = "x86_64")] libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")] libc::SYS_utime,
    #[cfg(target_arch = "x86_64")] libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")] libc::SYS_futimesat,
];

/// The calls that fail with "not permitted". With each of them a program can open a file, change the meaning of a path, or get data of
/// another process, unseen by the observer.
#[rustfmt::skip]
pub(super) const REFUSED: &[libc::c_long] = &[
    libc::SYS_io_uring_setup, libc::SYS_open_by_handle_at, libc::SYS_open_tree, libc::SYS_chroot,
    libc::SYS_pivot_root, libc::SYS_mount, libc::SYS_move_mount, libc::SYS_fsopen, libc::SYS_fsconfig,
    libc::SYS_fsmount, libc::SYS_fspick, libc::SYS_setns, libc::SYS_unshare, libc::SYS_umount2,
    libc::SYS_mount_setattr, libc::SYS_swapon, libc::SYS_swapoff, libc::SYS_acct, libc::SYS_quotactl,
    libc::SYS_quotactl_fd, libc::SYS_fanotify_init, libc::SYS_fanotify_mark, libc::SYS_lookup_dcookie,
    // Descriptors, memory and stored data of other processes.
    libc::SYS_bpf, libc::SYS_pidfd_getfd, libc::SYS_process_vm_readv, libc::SYS_process_vm_writev,
    libc::SYS_ptrace, libc::SYS_shmget, libc::SYS_shmat, libc::SYS_semget, libc::SYS_msgget, libc::SYS_mq_open,
    libc::SYS_mq_unlink, libc::SYS_add_key, libc::SYS_request_key, libc::SYS_keyctl,
    #[cfg(target_arch = "x86_64")] libc::SYS_uselib,
];

/// The calls that fail with "not supported", as on a file system without extended attributes: no digest covers these
/// attributes.
pub(super) const UNSUPPORTED: &[libc::c_long] = &[
    libc::SYS_getxattr,
    libc::SYS_lgetxattr,
    libc::SYS_fgetxattr,
    libc::SYS_listxattr,
    libc::SYS_llistxattr,
    libc::SYS_flistxattr,
    libc::SYS_fsetxattr,
    libc::SYS_fremovexattr,
];

/// The first number of calls that are newer than this list (`setxattrat` of Linux 6.13; numbers from 424 on are the
/// same for all architectures). They fail with "not implemented", as on an older kernel, for which programs have an
/// alternative.
pub(super) const FIRST_UNKNOWN: u32 = 463;

/// The kind of a watched call. That of `openat2` is in memory.
pub(super) fn kind(number: libc::c_long, args: &[u64; 6]) -> Call {
    match number {
        libc::SYS_openat => Call::Open { flags: args[2] as i32 },
        libc::SYS_execve | libc::SYS_execveat => Call::Exec,
        libc::SYS_linkat | libc::SYS_renameat2 | RENAMEAT => Call::Rename,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_link | libc::SYS_rename => Call::Rename,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open => Call::Open { flags: args[1] as i32 },
        #[cfg(target_arch = "x86_64")]
        libc::SYS_creat => Call::Open { flags: libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC },
        libc::SYS_mkdirat => Call::MakeDirectory,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_mkdir => Call::MakeDirectory,
        libc::SYS_mknodat | libc::SYS_symlinkat => Call::MakeSpecial,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_mknod | libc::SYS_symlink => Call::MakeSpecial,
        libc::SYS_truncate => Call::Truncate,
        libc::SYS_unlinkat => Call::Remove,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_unlink | libc::SYS_rmdir => Call::Remove,
        libc::SYS_fchmod | libc::SYS_fchmodat | FCHMODAT2 => Call::Change,
        libc::SYS_fchown | libc::SYS_fchownat | libc::SYS_utimensat => Call::Change,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_chmod | libc::SYS_chown | libc::SYS_lchown => Call::Change,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_utime | libc::SYS_utimes | libc::SYS_futimesat => Call::Change,
        libc::SYS_setxattr | libc::SYS_lsetxattr => Call::SetAttribute,
        libc::SYS_removexattr | libc::SYS_lremovexattr => Call::SetAttribute,
        libc::SYS_connect | libc::SYS_sendto | libc::SYS_sendmsg | libc::SYS_sendmmsg => Call::Connect,
        libc::SYS_bind => Call::Bind,
        _ => Call::Look,
    }
}

/// The arguments of a watched call that name a file.
pub(super) fn arguments(number: libc::c_long) -> Arguments {
    match number {
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open | libc::SYS_access | libc::SYS_stat | libc::SYS_lstat | libc::SYS_readlink => PLAIN,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_link | libc::SYS_rename | libc::SYS_mkdir => PLAIN,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_creat | libc::SYS_mknod | libc::SYS_unlink | libc::SYS_rmdir => PLAIN,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_chmod | libc::SYS_chown | libc::SYS_lchown | libc::SYS_utime | libc::SYS_utimes => PLAIN,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_symlink => SECOND,
        libc::SYS_symlinkat => Arguments { dir: Some(1), name: Some(2) },
        libc::SYS_execve | libc::SYS_chdir | libc::SYS_statfs | libc::SYS_truncate => PLAIN,
        libc::SYS_setxattr | libc::SYS_lsetxattr | libc::SYS_removexattr | libc::SYS_lremovexattr => PLAIN,
        libc::SYS_inotify_add_watch => SECOND,
        libc::SYS_fchmod | libc::SYS_fchown => DESCRIPTOR,
        _ => AT,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Numbers that no call of this architecture has, or none but the kernel's own code in a program.
    fn is_unused(number: libc::c_long) -> bool {
        match () {
            () if cfg!(target_arch = "x86_64") => (334 + 1..424).contains(&number),
            () => (244..260).contains(&number) || (295..424).contains(&number),
        }
    }

    /// The other calls, with the reason why they need not be observed.
    #[rustfmt::skip]
    const WITHOUT_NAMES: &[(&str, &[libc::c_long])] = &[
        ("An open file: `io_pgetevents`, and others that have no name in `libc` here.", &[
            #[cfg(target_arch = "x86_64")] 333,
            #[cfg(not(target_arch = "x86_64"))] 292,
            #[cfg(not(target_arch = "x86_64"))] 71,
            #[cfg(not(target_arch = "x86_64"))] 84,
            #[cfg(not(target_arch = "x86_64"))] 223,
        ]),
        #[cfg(not(target_arch = "x86_64"))]
        ("Limits: `getrlimit` and `setrlimit`, which have no name in `libc` here.", &[163, 164]),
        ("An open file, a pipe or a socket: it was observed when it was opened or connected.", &[
            libc::SYS_read, libc::SYS_write, libc::SYS_close, libc::SYS_fstat, libc::SYS_lseek, libc::SYS_ioctl,
            libc::SYS_pread64, libc::SYS_pwrite64, libc::SYS_readv, libc::SYS_writev, libc::SYS_preadv,
            libc::SYS_pwritev, libc::SYS_preadv2, libc::SYS_pwritev2, libc::SYS_dup, libc::SYS_dup3,
            libc::SYS_fcntl, libc::SYS_flock, libc::SYS_fsync, libc::SYS_fdatasync, libc::SYS_syncfs,
            libc::SYS_ftruncate, libc::SYS_fallocate, libc::SYS_getdents64, libc::SYS_fchdir, libc::SYS_fstatfs,
            libc::SYS_readahead, libc::SYS_copy_file_range, libc::SYS_splice, libc::SYS_tee, libc::SYS_vmsplice,
            libc::SYS_io_setup, libc::SYS_io_destroy, libc::SYS_io_submit, libc::SYS_io_cancel,
            libc::SYS_io_getevents, libc::SYS_close_range, libc::SYS_io_uring_enter,
            libc::SYS_io_uring_register, 451, libc::SYS_finit_module, libc::SYS_kexec_file_load,
        ]),
        #[cfg(target_arch = "x86_64")]
        ("An open file, a pipe or a socket: it was observed when it was opened or connected.", &[
            libc::SYS_dup2, libc::SYS_getdents, libc::SYS_fadvise64, libc::SYS_sync_file_range,
            libc::SYS_sendfile,
        ]),
        ("A new descriptor without a name, or with one that leads nowhere.", &[
            libc::SYS_pipe2, libc::SYS_socket, libc::SYS_socketpair, libc::SYS_eventfd2, libc::SYS_signalfd4,
            libc::SYS_timerfd_create, libc::SYS_timerfd_settime, libc::SYS_timerfd_gettime,
            libc::SYS_epoll_create1, libc::SYS_epoll_ctl, libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2,
            libc::SYS_inotify_init1, libc::SYS_inotify_rm_watch, libc::SYS_memfd_create, libc::SYS_memfd_secret,
            libc::SYS_userfaultfd, libc::SYS_pidfd_open, libc::SYS_perf_event_open,
            libc::SYS_landlock_create_ruleset, libc::SYS_landlock_add_rule, libc::SYS_landlock_restrict_self,
            libc::SYS_seccomp,
        ]),
        #[cfg(target_arch = "x86_64")]
        ("A new descriptor without a name, or with one that leads nowhere.", &[
            libc::SYS_pipe, libc::SYS_eventfd, libc::SYS_signalfd, libc::SYS_epoll_create, libc::SYS_epoll_wait,
            libc::SYS_epoll_ctl_old, libc::SYS_epoll_wait_old, libc::SYS_inotify_init,
        ]),
        ("A socket whose other end was named by another call.", &[
            libc::SYS_accept, libc::SYS_accept4, libc::SYS_listen, libc::SYS_recvfrom, libc::SYS_recvmsg,
            libc::SYS_recvmmsg, libc::SYS_shutdown, libc::SYS_getsockname, libc::SYS_getpeername,
            libc::SYS_setsockopt, libc::SYS_getsockopt,
        ]),
        ("Waits.", &[
            libc::SYS_ppoll, libc::SYS_pselect6, libc::SYS_nanosleep, libc::SYS_clock_nanosleep,
            libc::SYS_futex, libc::SYS_futex_waitv, 454, 455, 456, libc::SYS_rt_sigsuspend,
            libc::SYS_rt_sigtimedwait, libc::SYS_wait4, libc::SYS_waitid, libc::SYS_sched_yield,
            libc::SYS_restart_syscall,
        ]),
        #[cfg(target_arch = "x86_64")]
        ("Waits.", &[
            libc::SYS_poll, libc::SYS_select, libc::SYS_pause,
        ]),
        ("Memory of the process itself, or a message queue, shared memory or semaphores that another call has opened.", &[
            libc::SYS_mmap, libc::SYS_mprotect, libc::SYS_munmap, libc::SYS_brk, libc::SYS_mremap,
            libc::SYS_msync, libc::SYS_mincore, libc::SYS_madvise, libc::SYS_process_madvise,
            libc::SYS_process_mrelease, libc::SYS_mlock, libc::SYS_mlock2, libc::SYS_munlock,
            libc::SYS_mlockall, libc::SYS_munlockall, libc::SYS_remap_file_pages, libc::SYS_mbind,
            libc::SYS_set_mempolicy, libc::SYS_get_mempolicy, libc::SYS_set_mempolicy_home_node,
            libc::SYS_migrate_pages, libc::SYS_move_pages, libc::SYS_membarrier, libc::SYS_pkey_mprotect,
            libc::SYS_pkey_alloc, libc::SYS_pkey_free, 453, libc::SYS_mseal, libc::SYS_shmctl, libc::SYS_shmdt,
            libc::SYS_semop, libc::SYS_semtimedop, libc::SYS_semctl, libc::SYS_msgsnd, libc::SYS_msgrcv,
            libc::SYS_msgctl, libc::SYS_mq_timedsend, libc::SYS_mq_timedreceive, libc::SYS_mq_notify,
            libc::SYS_mq_getsetattr,
        ]),
        ("Processes, threads and signals.", &[
            libc::SYS_rt_sigaction, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn, libc::SYS_rt_sigpending,
            libc::SYS_rt_sigqueueinfo, libc::SYS_rt_tgsigqueueinfo, libc::SYS_sigaltstack, libc::SYS_kill,
            libc::SYS_tkill, libc::SYS_tgkill, libc::SYS_pidfd_send_signal, libc::SYS_clone, libc::SYS_clone3,
            libc::SYS_exit, libc::SYS_exit_group, libc::SYS_set_tid_address, libc::SYS_set_robust_list,
            libc::SYS_get_robust_list, libc::SYS_rseq, libc::SYS_prctl, libc::SYS_personality, libc::SYS_kcmp,
            libc::SYS_getpid, libc::SYS_gettid, libc::SYS_getppid, libc::SYS_getpgid, libc::SYS_setpgid,
            libc::SYS_getsid, libc::SYS_setsid, libc::SYS_capget, libc::SYS_capset, libc::SYS_setuid,
            libc::SYS_setgid, libc::SYS_setreuid, libc::SYS_setregid, libc::SYS_setresuid, libc::SYS_setresgid,
            libc::SYS_setfsuid, libc::SYS_setfsgid, libc::SYS_setgroups, libc::SYS_vhangup,
        ]),
        #[cfg(target_arch = "x86_64")]
        ("Processes, threads and signals.", &[
            libc::SYS_fork, libc::SYS_vfork, libc::SYS_arch_prctl, libc::SYS_set_thread_area,
            libc::SYS_get_thread_area, libc::SYS_modify_ldt, libc::SYS_getpgrp, libc::SYS_iopl, libc::SYS_ioperm,
        ]),
        ("The user, the machine or limits, which are not restricted.", &[
            libc::SYS_getuid, libc::SYS_geteuid, libc::SYS_getgid, libc::SYS_getegid, libc::SYS_getresuid,
            libc::SYS_getresgid, libc::SYS_getgroups, libc::SYS_uname, libc::SYS_sysinfo, libc::SYS_syslog,
            libc::SYS_getcwd, libc::SYS_umask, libc::SYS_prlimit64, libc::SYS_getrusage, libc::SYS_times,
            libc::SYS_getpriority, libc::SYS_setpriority, libc::SYS_ioprio_get, libc::SYS_ioprio_set,
            libc::SYS_sched_setparam, libc::SYS_sched_getparam, libc::SYS_sched_setscheduler,
            libc::SYS_sched_getscheduler, libc::SYS_sched_get_priority_max, libc::SYS_sched_get_priority_min,
            libc::SYS_sched_rr_get_interval, libc::SYS_sched_setaffinity, libc::SYS_sched_getaffinity,
            libc::SYS_sched_setattr, libc::SYS_sched_getattr, libc::SYS_getcpu, 457, 458, 459, 460, 461,
            libc::SYS_getrandom,
        ]),
        #[cfg(target_arch = "x86_64")]
        ("The user, the machine or limits, which are not restricted.", &[
            libc::SYS_getrlimit, libc::SYS_setrlimit, libc::SYS_sysfs, libc::SYS_ustat,
        ]),
        ("Time.", &[
            libc::SYS_gettimeofday, libc::SYS_settimeofday, libc::SYS_clock_gettime, libc::SYS_clock_settime,
            libc::SYS_clock_getres, libc::SYS_clock_adjtime, libc::SYS_adjtimex, libc::SYS_getitimer,
            libc::SYS_setitimer, libc::SYS_timer_create, libc::SYS_timer_settime, libc::SYS_timer_gettime,
            libc::SYS_timer_getoverrun, libc::SYS_timer_delete,
        ]),
        #[cfg(target_arch = "x86_64")]
        ("Time.", &[
            libc::SYS_time, libc::SYS_alarm,
        ]),
        ("The whole machine, for its administrator.", &[
            libc::SYS_sync, libc::SYS_reboot, libc::SYS_sethostname, libc::SYS_setdomainname,
            libc::SYS_init_module, libc::SYS_delete_module, libc::SYS_kexec_load,
        ]),
        ("No longer in the kernel, or never.", &[
            libc::SYS_nfsservctl,
        ]),
        #[cfg(target_arch = "x86_64")]
        ("No longer in the kernel, or never.", &[
            libc::SYS__sysctl, 174, 177, 178,
            libc::SYS_getpmsg, libc::SYS_putpmsg, libc::SYS_afs_syscall, libc::SYS_tuxcall, libc::SYS_security,
            libc::SYS_vserver,
        ]),
    ];

    /// A call that is in no list would be a way around the observer.
    #[test]
    fn each_call_is_watched_or_refused_or_names_no_file() {
        let lists = [WATCHED, REFUSED, UNSUPPORTED];
        let reasoned = WITHOUT_NAMES.iter().map(|(_, calls)| *calls);
        let mut known = BTreeSet::new();
        for &number in lists.into_iter().chain(reasoned).flatten() {
            assert!(known.insert(number), "call {number} is in two lists");
            assert!((0..FIRST_UNKNOWN.into()).contains(&number) && !is_unused(number), "call {number}");
        }
        let unknown: Vec<_> = (0..libc::c_long::from(FIRST_UNKNOWN))
            .filter(|it| !known.contains(it) && !is_unused(*it))
            .collect();
        assert!(unknown.is_empty(), "calls {unknown:?} are in no list");
        assert!(WITHOUT_NAMES.iter().all(|(reason, _)| reason.ends_with('.')));
    }
}
