#!/bin/bash
# build_binary_op_exe_task.sh FOLDER NUMBER: runs one line of FOLDER/opc_cmd/opc_cmd.sh, with a time limit and a log.
folder=$1
number=$2
command=$(sed -n "${number}p" "$folder/opc_cmd/opc_cmd.sh")
param=$(sed 's/.*--input_param=\([^ ]*\).*/\1/' <<< "$command")
mkdir -p "$folder/build_logs"
log=$folder/build_logs/$(basename "$param").log
began=$(date +%s)
echo "[$(date '+%Y-%m-%d %H:%M:%S')] Build started: $command" > "$log"
timeout --foreground 2h $command >> "$log" 2>&1
status=$?
[ $status -ne 124 ] || echo "TIMEOUT: $command" | tee -a "$log"
echo "[$(date '+%Y-%m-%d %H:%M:%S')] exe_time: $(($(date +%s) - began)) s" >> "$log"
[ $status -eq 0 ] || echo "$command failed with $status, see $log" >&2
exit $status
