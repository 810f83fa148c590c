# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2064
# The driver of bash interpreters. The host (_channel.py has the protocol) passes it as `bash -c`.
#
# Code is evaluated in this very shell, at its top level, so everything it sets stays. A shell cannot
# be kept from ending (exit, set -e, ${x?}, an interrupt). Then the trap on EXIT writes down what it
# knows, and the same process executes bash anew, which reads that and goes on. Where the code has a
# trap on EXIT of its own, that one runs, and the end is an end.
#
# While code runs the channel is closed but for a copy that bash keeps for itself, so nothing that is
# started inherits it. Names that code may give to functions of its own are called through `builtin`;
# a function with that name does not outlive the code that defines it (POSIX mode, which an assignment
# switches on, finds `unset` before any function).
#
# Arguments: the descriptor with the state of the shell before, the token of its request, its status,
# and the count of requests so far. A fresh shell has none.

__cordon_fd=200
__cordon_bash=$BASH
__cordon_self=$BASH_EXECUTION_STRING
__cordon_token=${2-}
__cordon_count=${4-0}
__cordon_code=
__cordon_status=0
__cordon_args=() # positional parameters before the code: inside a function they are others
# shellcheck disable=SC2016 # for later
__cordon_trap='__cordon_status=$?
if [[ -n ${FUNCNAME-} ]]; then __cordon_ended "${__cordon_args[@]}"; else __cordon_ended "$@"; fi'

# Variables that are the shell's own business.
__cordon_own=' BASH BASHOPTS BASHPID BASH_ALIASES BASH_ARGC BASH_ARGV BASH_ARGV0 BASH_CMDS BASH_COMMAND'
__cordon_own+=' BASH_EXECUTION_STRING BASH_LINENO BASH_MONOSECONDS BASH_REMATCH BASH_SOURCE BASH_SUBSHELL'
__cordon_own+=' BASH_TRAPSIG BASH_VERSINFO BASH_VERSION COMP_WORDBREAKS DIRSTACK EPOCHREALTIME EPOCHSECONDS'
__cordon_own+=' EUID FUNCNAME GROUPS HISTCMD LINENO PIPESTATUS POSIXLY_CORRECT PPID RANDOM SECONDS'
__cordon_own+=' SHELLOPTS SHLVL SRANDOM UID _ '

# Everything that the next shell needs to know, as commands.
__cordon_state() {
	builtin local __cordon_name
	builtin printf 'builtin cd -- %q\n' "$PWD"
	while IFS= builtin read -r __cordon_name; do
		if [[ $__cordon_name != __cordon_* && $__cordon_own != *" $__cordon_name "* ]]; then
			builtin declare -p "$__cordon_name"
		fi
	done <<<"$(builtin compgen -v)"
	while IFS= builtin read -r __cordon_name; do
		if [[ -n $__cordon_name && $__cordon_name != __cordon_* ]]; then
			builtin declare -f -- "$__cordon_name"
		fi
	done <<<"$(builtin compgen -A function)"
	while IFS= builtin read -r __cordon_name; do
		if [[ $__cordon_name == 'declare -'*x* ]]; then
			builtin printf 'builtin export -f %q\n' "${__cordon_name##* }"
		fi
	done <<<"$(builtin declare -F)"
	builtin alias -p
	builtin printf 'builtin set --'
	(($# == 0)) || builtin printf ' %q' "$@"
	builtin printf '\n'
	builtin trap -p
	builtin shopt -p
	builtin printf '%s\n' "$__cordon_options"
}

# Code that ends inside a function leaves the channel closed. Bash has its copy at 10 or above, which
# closes on exec, and so would a copy of that, but for one made by way of descriptor 2.
__cordon_find() {
	builtin local __cordon_n __cordon_error=
	[[ ! -S /dev/fd/$__cordon_fd ]] || builtin return 0
	for ((__cordon_n = 10; __cordon_n < __cordon_fd; __cordon_n++)); do
		[[ ! -S /dev/fd/$__cordon_n ]] || builtin break
	done
	((__cordon_n < __cordon_fd)) || builtin return 0
	[[ ! -e /dev/fd/2 ]] || exec {__cordon_error}>&2
	exec 2<&"$__cordon_n"
	exec 200<&2 2>&-
	[[ -z $__cordon_error ]] || exec 2>&"$__cordon_error" {__cordon_error}>&-
}

# The shell ends; with code of the host's request running, or not.
__cordon_ended() {
	builtin local __cordon_text __cordon_in __cordon_options
	__cordon_options=$(builtin set +o)
	builtin trap - EXIT
	builtin set +eux
	__cordon_text=$(__cordon_state "$@" 2>/dev/null)
	POSIXLY_CORRECT=y # from here on `exec` is the builtin, whatever the code has defined
	unset -f builtin
	__cordon_find
	exec {__cordon_in}<<<"$__cordon_text"
	unset POSIXLY_CORRECT
	builtin exec "$__cordon_bash" --norc --noprofile -c "$__cordon_self" bash \
		"$__cordon_in" "$__cordon_token" "$__cordon_status" "$__cordon_count"
}

__cordon_say() {
	# Without the channel there is nobody to work for.
	builtin printf '%s\n' "$__cordon_token {$1,\"parts\":[]}" >&"$__cordon_fd" || builtin kill -KILL $$
	__cordon_token=
}

__cordon_end() {
	__cordon_say "\"type\":\"end\",\"count\":$__cordon_count,\"status\":$1,\"exited\":$2"
}

# Length and content of a variable in bytes.
__cordon_get() {
	builtin local LC_ALL=C __cordon_value
	if [[ ! $1 =~ ^[a-zA-Z_][a-zA-Z0-9_]*$ || -z ${!1+x} ]]; then
		__cordon_value="$1 is not set"
		builtin printf '%s {"type":"refused","parts":[9,%d]}\nNameError%s' "$__cordon_token" \
			"${#__cordon_value}" "$__cordon_value" >&"$__cordon_fd"
	else
		__cordon_value=${!1}
		builtin printf '%s {"type":"value","kind":"text","parts":[%d]}\n%s' "$__cordon_token" \
			"${#__cordon_value}" "$__cordon_value" >&"$__cordon_fd"
	fi
	__cordon_token=
}

# Says what came of the last code, and gets the next; everything else is done here.
__cordon_next() {
	__cordon_status=$?
	__cordon_args=("$@")
	builtin local __cordon_kind __cordon_size __cordon_posix=
	[[ $SHELLOPTS != *posix* ]] || __cordon_posix=y
	POSIXLY_CORRECT=y
	unset -f builtin
	[[ -n $__cordon_posix ]] || unset POSIXLY_CORRECT
	[[ -z $__cordon_token ]] || __cordon_end "$__cordon_status" false
	while IFS=' ' builtin read -r -u "$__cordon_fd" __cordon_kind __cordon_token __cordon_size; do
		__cordon_code=
		if ((__cordon_size > 0)); then
			LC_ALL=C IFS='' builtin read -r -N "$__cordon_size" -u "$__cordon_fd" __cordon_code || builtin break
		fi
		case $__cordon_kind in
		exec)
			((__cordon_count += 1))
			builtin return 0
			;;
		get) __cordon_get "$__cordon_code" ;;
		*)
			builtin eval "$__cordon_code"
			__cordon_say '"type":"value","kind":"none"'
			;;
		esac
	done
	builtin trap - EXIT
	builtin exit 0 # the host is gone
}

builtin trap "$__cordon_trap" EXIT
builtin trap '[[ -z $__cordon_token ]] || builtin exit 130' INT
if [[ -n ${1-} ]]; then
	__cordon_in=$1 __cordon_status=$3
	IFS='' builtin read -r -d '' -u "$__cordon_in" __cordon_code
	exec {__cordon_in}<&-
	builtin set --
	builtin eval "$__cordon_code" 2>/dev/null || :
	builtin trap "$__cordon_trap" EXIT
	[[ -z $__cordon_token ]] || __cordon_end "$__cordon_status" true
else
	exec 200<&3 3<&-
	builtin printf -- '- {"type":"hello","version":"%s","parts":[]}\n' "${BASH_VERSION//[^a-zA-Z0-9.()-]/_}" >&200
fi
unset __cordon_in
# `continue` in code comes here, `break` into the outer loop.
while :; do
	while { __cordon_next "$@"; } 2>/dev/null; do
		builtin eval "$__cordon_code" 200>&-
	done
done
