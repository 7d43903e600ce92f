# Asked of a server where no Python module could start: needs nothing but a shell. Prints KEY TAB VALUE lines.
tab=$(printf '\t')
for python in /usr/bin/python3 /usr/bin/python3.[0-9]* /usr/local/bin/python3 /usr/local/bin/python3.[0-9]* \
    /usr/libexec/platform-python /opt/*/bin/python3 /opt/*/*/bin/python3 /venv/bin/python3 /venv/*/bin/python3 \
    /workspace/*/bin/python3 "$HOME"/*/bin/python3 "$HOME"/.*/bin/python3 /home/*/*/bin/python3; do
    [ -x "$python" ] || continue
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
    echo "python$tab$version$tab$python"
done
for place in /tmp /var/tmp "$HOME"; do
    folder="$place/auditor-preflight-$$"
    if said=$(mkdir -m 700 "$folder" 2>&1); then
        if said=$( (head -c 1048576 /dev/zero >"$folder/room") 2>&1); then
            echo "place${tab}ok$tab$place"
        else
            echo "place${tab}$said$tab$place"
        fi
        rm -f "$folder/room"
        rmdir "$folder"
    else
        echo "place${tab}$said$tab$place"
    fi
done
echo "end${tab}end"
