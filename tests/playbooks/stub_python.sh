#!/bin/sh
# A Python that costs nothing: swallows Ansible's module and answers as gpu_probe would, so that a thousand module runs
# do not compete with the controller for two cores. The answer's record repeats server, run and nonce.
arguments=$(grep -a -o '"ANSIBLE_MODULE_ARGS": {.*' | head -c 1000)
value() { printf '%s' "$arguments" | sed -n "s/.*\"$1\": \"\([^\"]*\)\".*/\1/p"; }
case $(value state) in
started)
    printf '%s %s %s' "$(value server)" "$(value run)" "$(value nonce)" >/tmp/told
    echo '{"changed": true, "probe": {"folder": "/tmp/auditor-0123456789abcdef", "pid": 2, "interpreter": "/usr/bin/python3"}}'
    ;;
collected)
    read -r server run nonce </tmp/told
    printf '{"schema": 1, "tool": {"name": "stub", "version": "0"}, "run": "%s", "server": "%s", "profile": "standard", "device": "cpu", "synthetic": true, "nonce": "%s", "started": "2026-12-01T00:00:00Z", "seconds": {"total": 1.0, "fixed": 0.1, "measuring": 0.9}, "subjects": [], "probes": [], "readings": [], "series": [], "attachments": {}}' "$run" "$server" "$nonce" >/tmp/record
    sum=$(sha256sum </tmp/record)
    printf '{"changed": false, "probe": {"finished": true, "exit": 0, "percent": 100, "sha256": "%s", "record": "%s"}}\n' "${sum%% *}" "$(base64 -w0 </tmp/record)"
    ;;
*) echo '{"changed": true, "probe": {"removed": ["/tmp/auditor-0123456789abcdef"], "left": []}}' ;;
esac
