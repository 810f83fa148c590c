/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the broker share. Theory of operation: broker.c (changes of metadata),
 * connect.c.
 */
#ifndef INIT_BROKER_PARTS_H
#define INIT_BROKER_PARTS_H

#include <stddef.h>
#include <stdint.h>

#include <linux/seccomp.h>
#include <linux/stat.h>
#include <linux/time_types.h>

#define BROKER_PATH_MAX 4096
#define BROKER_ROOTS_MAX 1024  /* the broker ignores write grants beyond this many */
#define BROKER_NO_ID (~0u)     /* chown: leave it as it is */
#define BROKER_ADDRESS_MAX 128 /* struct sockaddr_storage: the kernel takes no longer address */
#define BROKER_GO_ON 1	       /* the kernel shall do it: see connect.c and signals.c */
#define BROKER_INFO_BYTES 128  /* siginfo_t */

enum broker_action {
	BROKER_CHMOD,
	BROKER_CHOWN,
	BROKER_UTIME,
	BROKER_TRUNCATE
};

/* How the guest hands over its two times. */
enum broker_times {
	BROKER_UTIMBUF,
	BROKER_TIMEVAL,
	BROKER_TIMESPEC
};

/* A call as its registers describe it; addresses are the guest's. */
struct broker_call {
	enum broker_action action;
	int dir_fd;   /* AT_FDCWD or a descriptor of the guest */
	int by_fd;    /* the object is dir_fd itself, there is no path */
	int follow;   /* a symbolic link at the end of the path */
	int empty_ok; /* an empty path means dir_fd */
	uint64_t path;
	uint32_t mode, uid, gid;
	enum broker_times format;
	uint64_t times; /* 0 = now */
	int64_t length; /* truncate */
};

/* A call that sends a signal. */
struct broker_signal {
	enum broker_signal_to {
		BROKER_TO_PROCESS, /* target is its pid, or that of one of its threads */
		BROKER_TO_THREAD,  /* target is the thread's number; process, unless 0, its pid */
		BROKER_TO_GROUP,   /* 0 = the caller's own */
		BROKER_TO_ALL,
		BROKER_TO_PIDFD, /* target is a descriptor of the caller */
		BROKER_AS_OWNER, /* of a file: later signals go to the target, 0 = to none */
	} to;
	int target, process, signal;
	uint64_t info; /* the guest's address of a siginfo_t, 0 = none */
};

/* An object in which the guest may write, and all below it if it is a directory. */
struct broker_root {
	uint64_t ino;
	uint32_t dev_major, dev_minor;
};

struct broker {
	int proc_fd;	  /* /proc, verified to be procfs of our pid namespace */
	int self_fds;	  /* /proc/self/fd */
	int socket_fd;	  /* our end, on which the listener arrives; the thread's */
	int listener_fd;  /* the thread's */
	int child_socket; /* the command's end; -1 = no listener is to be made */
	int is_session;	  /* listeners of further commands may come */
	int busy;	  /* set by the thread: something is being changed */
	int stopping;	  /* set by the main thread: make no more changes */
	uint32_t uid, gid;
	uint64_t file_bytes; /* the largest file that truncate() may make */
	struct init *in;     /* only to be read, and only what never changes or is one word */
	int proxy_fd;	     /* the proxy's port, -1 = no network */
	int gateway_fd;	     /* where connections are handed over */
	uint16_t proxy_port; /* the listener's */
	int has_unix;	     /* the guest can make Unix sockets and connect them */
	uint32_t n_roots;
	struct broker_root *roots; /* room for BROKER_ROOTS_MAX */
};

/* call.c: nothing but arithmetic. All return 0 or -errno. */
long broker_decode(const struct seccomp_data *data, struct broker_call *ret);
/* 0, or -ENOSYS if the call sends no signal. */
long broker_decode_signal(const struct seccomp_data *data, struct broker_signal *ret);
size_t broker_times_size(enum broker_times format);
long broker_times_convert(enum broker_times format, const int64_t raw[4],
			  struct __kernel_timespec ret[2]);
/* May an object with the type in @object_mode get the mode bits @mode? */
long broker_check_mode(uint32_t object_mode, uint32_t mode);
/* May anything of this type be changed at all? */
long broker_check_type(uint32_t object_mode);
/* N if @path is one of the names of the caller's descriptor N, else -1. */
int broker_fd_alias(const char *path);
/* Cuts an absolute path before its last name, which it returns; NULL if there is none. */
char *broker_split(char *path);

/* addr.c: nothing but arithmetic. */
enum broker_destination {
	BROKER_TO_NOWHERE,
	BROKER_TO_PROXY,	/* 127.0.0.1, also as an IPv6 address, and the proxy's port */
	BROKER_TO_OTHER_FAMILY, /* not IP */
};

/* The guest's address, as it was copied: enum broker_destination, or -errno. */
long broker_read_destination(const uint8_t *address, size_t len, uint16_t proxy_port);
/* Does a link in /proc/PID/fd name a socket? */
int broker_is_socket(const char *link, size_t n);
/* O_NONBLOCK and O_CLOEXEC out of a file of /proc/PID/fdinfo, or -EBADF. */
long broker_read_flags(const char *text, size_t n);

/* connect.c */
/* Answers connect(): 0, BROKER_GO_ON or -errno. */
long broker_connect(const struct broker *b, const struct seccomp_notif *notif, int task_fd);

/* signals.c */
/* Answers a call that sends a signal: 0, BROKER_GO_ON or -errno. */
long broker_send_signal(const struct broker *b, const struct seccomp_notif *notif, int task_fd,
			const struct broker_signal *call);

/* serve.c: the thread */
int broker_main(void *broker);

/* path.c */
long broker_stat(int fd, const char *name, struct statx *ret);
int broker_is_same(const struct statx *a, const struct statx *b);
/* 0 if the object lies inside a write grant, else -EPERM or what went wrong. */
long broker_check_inside(const struct broker *b, int object_fd, struct statx *ret_st);
/* A descriptor (O_PATH) of what the guest task at @task_fd means. */
long broker_open_guest_fd(int task_fd, int fd);
long broker_open_base(int task_fd, const struct broker_call *call, const char *path);
long broker_open_object(int base_fd, const struct broker_call *call, const char *path);

/* fd.c: one descriptor over a socket, as broker_send_fd() sends it. */
long broker_receive_fd(int socket_fd);

#endif
