"""An inventory from the lists that people keep: both languages, and nothing dropped in silence."""

import os
import zipfile

import openpyxl
import pytest
import yaml
from click.testing import CliRunner

from auditor.commands.inventory import command
from auditor.errors import UserError
from auditor.imports import columns, hosts

ENGLISH = """Provider list,,,,,,,
Server,IP address,SSH port,User,GPU model,GPU count,Interconnect,Bare metal,Price per hour
gpu-01,192.0.2.10,22022,ubuntu,A100-SXM4-80GB,8,NVSwitch,yes,$12.50/h
gpu-02,192.0.2.11,22,ubuntu,A100-SXM4-80GB,8,NVSwitch,no,$9
"""
CHINESE = """服务器名称,IP地址,端口,用户名,型号,卡数,裸金属,内存,单价,机房
算力一号,198.51.100.7,22,root,H20,8张,是,2TB,¥88.5/小时,上海
"""


def imported(tmp_path, text, name="list.csv", encoding="utf-8"):
    """Write a file and import it; returns (hosts, what was left out)."""
    path = tmp_path / name
    path.write_bytes(text.encode(encoding))
    found = hosts.read(path)
    return found.hosts, found.left_out


def test_an_english_list_becomes_an_inventory(tmp_path):
    """A title row above the header does not matter; the price says its currency."""
    got, left = imported(tmp_path, ENGLISH)
    assert left == []
    assert got["gpu-01"] == {
        "ansible_host": "192.0.2.10",
        "ansible_port": 22022,
        "ansible_user": "ubuntu",
        "audit_order": {
            "gpus": 8, "gpu": "A100-SXM4-80GB", "interconnect": "nvswitch", "bare_metal": True,
            "price_per_hour": 12.5, "currency": "USD",
        },
    }  # fmt: skip
    assert got["gpu-02"]["audit_order"]["bare_metal"] is False


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "gb18030"])
def test_a_chinese_list_becomes_an_inventory(tmp_path, encoding):
    """The display name keeps its script, the size its meaning, and the unknown column is named."""
    got, left = imported(tmp_path, CHINESE, encoding=encoding)
    host = got["server-1"]
    assert host["audit_label"] == "算力一号" and host["ansible_host"] == "198.51.100.7"
    assert host["audit_order"] == {
        "gpus": 8, "gpu": "H20", "bare_metal": True, "ram_gb": 2000.0, "price_per_hour": 88.5, "currency": "CNY",
    }  # fmt: skip
    assert left == ["column '机房': not known"]


def test_a_workbook_reads_like_its_csv(tmp_path):
    """Numbers that a spreadsheet made of texts stay numbers."""
    book = openpyxl.Workbook()
    for row in (
        ["Name", "IP", "GPU", "GPUs", "RAM GB", "Currency", "Price"],
        ["a", "192.0.2.1", "H200", 8, 2048, "usd", 30],
    ):
        book.active.append(row)
    book.save(tmp_path / "list.xlsx")
    found = hosts.read(tmp_path / "list.xlsx")
    assert found.hosts["a"]["audit_order"] == {
        "gpus": 8, "gpu": "H200", "ram_gb": 2048.0, "price_per_hour": 30.0, "currency": "USD",
    }  # fmt: skip


def test_a_formula_without_a_result_is_listed_with_its_cell(tmp_path):
    """A program that never calculated the sheet left no value; the row counts as the sheet shows it, blank ones too."""
    book = openpyxl.Workbook()
    link = '=HYPERLINK("http://192.0.2.1","192.0.2.1")'
    for row in (["Name", "IP", "GPU", "GPUs"], ["a", link, "H200", 8], [], ["b", "192.0.2.2", "H200", "=4+4"], [link]):
        book.active.append(row)
    book.save(tmp_path / "list.xlsx")
    found = hosts.read(tmp_path / "list.xlsx")
    assert list(found.hosts) == ["a", "b"] and "ansible_host" not in found.hosts["a"]
    assert found.left_out[0].startswith("row 2, address: '=HYPERLINK(") and "without a result" in found.left_out[0]
    assert any(line.startswith("row 4, gpus: '=4+4' is a formula") for line in found.left_out)
    assert found.left_out[-1].startswith("row 5, name: '=HYPERLINK(")
    assert "# not understood: row 2, address: '=HYPERLINK(" in hosts.text(found, "list.xlsx")


def test_an_ssh_config_gives_hosts_without_orders(tmp_path):
    """Patterns are no servers; ports, users and jump hosts come along."""
    text = (
        "Host *\n  User nobody\n"
        "Host gpu-a\n  HostName 192.0.2.5\n  Port 2200\n  User root\n  ProxyJump jump@192.0.2.1\n"
    )
    got, left = imported(tmp_path, text, "config")
    assert left == [] and list(got) == ["gpu-a"]
    assert got["gpu-a"]["ansible_port"] == "2200" or got["gpu-a"]["ansible_port"] == 2200
    assert got["gpu-a"]["ansible_ssh_common_args"] == "-o ProxyJump=jump@192.0.2.1"


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ("x,192.0.2.1,many,H200", "row 2, gpus: 'many' is no whole number"),
        ("x,-oProxyCommand=id,8,H200", "row 2, address: '-oProxyCommand=id' is no address"),
        ("x,192.0.2.1,8,", "names no model"),
        ("x,192.0.2.1,0,H200", "contradict"),
    ],
)
def test_what_is_not_understood_is_listed_with_its_row(tmp_path, cells, words):
    """The server still has its row; the sentence says which cell was left out."""
    got, left = imported(tmp_path, "name,ip,gpus,gpu\n" + cells + "\n")
    assert "x" in got and any(words in line for line in left)
    assert "audit_order" not in got["x"] or "gpus" in got["x"]["audit_order"]


def test_hostile_names_become_harmless_and_stay_apart(tmp_path):
    """A name that could be an option or a path is rewritten, and two that become equal are numbered."""
    got, _ = imported(tmp_path, "name,ip\n../../etc,192.0.2.1\n=cmd|' /C',192.0.2.2\netc,192.0.2.3\n")
    assert list(got) == ["etc", "cmd-C", "etc-2"]
    assert got["cmd-C"]["audit_label"] == "=cmd|' /C'"


def test_C11_a_workbook_that_unpacks_to_too_much_is_refused(tmp_path):
    """The size is read from the archive's own list before anything is unpacked."""
    path = tmp_path / "bomb.xlsx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", b"\0" * (65 << 20))
    with pytest.raises(UserError, match="unpacks to 65 MiB"):
        hosts.read(path)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"PK\x03\x04rubbish", "no workbook"),
        (b"a,b\n1,2\n", "no header row"),
        (b"", "no header row"),
        (b"\xff\xfe\xff\xff\x81", "GB18030"),
    ],
)
def test_a_file_that_is_no_list_says_so(tmp_path, data, words):
    """The sentence names the file and what to do."""
    path = tmp_path / "x.csv"
    path.write_bytes(data)
    with pytest.raises(UserError, match=words):
        hosts.read(path)


@pytest.mark.parametrize(
    ("text", "amount", "currency"),
    [
        ("$1,250.50", 1250.5, "USD"),
        ("12,5 €", None, None),
        ("88元/小时", 88.0, "CNY"),
        ("7.5", 7.5, None),
        ("3.2 USD/h", 3.2, "USD"),
    ],
)
def test_prices_as_people_write_them(text, amount, currency):
    """A sign after a comma price is not guessed."""
    if amount is None:
        with pytest.raises(columns.NotUnderstood):
            columns.cell("price_per_hour", text)
    else:
        assert columns.cell("price_per_hour", text) == columns.Price(amount, currency)


def test_the_command_writes_yaml_that_reads_back_and_overwrites_nothing(tmp_path):
    """The file is an inventory; a second run is refused without --force."""
    source, out = tmp_path / "list.csv", tmp_path / "inventory" / "hosts.yml"
    source.write_text(CHINESE, encoding="utf-8")
    run = CliRunner().invoke(command, ["import", str(source), "-o", str(out)])
    assert run.exit_code == 0 and "1 servers, 1 with an order" in run.output and "机房" in run.output
    assert yaml.safe_load(out.read_text(encoding="utf-8"))["all"]["hosts"]["server-1"]["audit_order"]["gpu"] == "H20"
    again = CliRunner().invoke(command, ["import", str(source), "-o", str(out)])
    assert isinstance(again.exception, UserError) and "--force" in str(again.exception)
    assert CliRunner().invoke(command, ["import", str(source), "-o", str(out), "--force"]).exit_code == 0


def test_a_unit_in_the_header_and_a_note_do_not_cost_the_name(tmp_path):
    """The currency comes from the brackets; a server keeps its own name in the display name beside the remark."""
    path = tmp_path / "list.csv"
    path.write_text(
        "名称,IP,型号,卡数,单价(元/小时),备注\n北京-01,192.0.2.1,H20,8,88,机房A\n上海-01,192.0.2.2,H20,8,90,\n", "utf-8"
    )
    found = hosts.read(path)
    assert found.left_out == []
    assert list(found.hosts) == ["server-1", "server-2"]
    assert found.hosts["server-1"]["audit_label"] == "北京-01, 机房A"
    order = found.hosts["server-1"]["audit_order"]
    assert (order["price_per_hour"], order["currency"]) == (88.0, "CNY")
    assert "'北京-01' is called server-1" in found.notes[0]


def test_one_machine_listed_twice_is_said(tmp_path):
    """Both rows stay, because only a person knows which is right."""
    path = tmp_path / "list.csv"
    path.write_text("name,ip,gpu,gpus\na,192.0.2.1,H20,8\nb,192.0.2.1,H20,8\n")
    assert "b has the address of a" in hosts.read(path).notes[0]


def test_a_currency_without_its_price_is_no_order(tmp_path):
    """A price that was not understood takes its currency along."""
    path = tmp_path / "list.csv"
    path.write_text("name,ip,gpu,gpus,price,currency\na,192.0.2.1,H20,8,ask,USD\n")
    found = hosts.read(path)
    assert "currency" not in found.hosts["a"]["audit_order"] and "'ask'" in found.left_out[0]


@pytest.mark.parametrize("cell", ["{{ lookup('pipe', 'id') }}", "{% set x = 1 %}", "H200 {# x #}"])
def test_C08_a_template_in_a_cell_never_reaches_the_inventory(tmp_path, cell):
    """Ansible would run it on the controller, so the cell is left out and said, whatever its column."""
    path = tmp_path / "list.csv"
    path.write_text(f'name,ip,gpu,gpus,label\na,192.0.2.1,"{cell}",8,"{cell}"\n"{cell}",192.0.2.2,H20,8,\n')
    found = hosts.read(path)
    assert sum("template marks" in line for line in found.left_out) == 3
    made = hosts.text(found, "list.csv")
    assert "{{" not in made and "{%" not in made and "{#" not in made


def test_C07_a_strangers_ssh_config_runs_nothing(tmp_path):
    """Match blocks are left out with what they hold: `Match exec` would start a program on the controller."""
    mark = tmp_path / "ran"
    path = tmp_path / "config"
    path.write_text(
        f'Host gpu-01\n  HostName 192.0.2.1\n  Port 2222\nMatch exec "touch {mark}"\n  User evil\n'
        f'host gpu-02\n  HostName 192.0.2.2\n match host=* exec "touch {mark}"\n  Port 1\n'
    )
    found = hosts.read(path).hosts
    assert {name: row["ansible_host"] for name, row in found.items()} == {"gpu-01": "192.0.2.1", "gpu-02": "192.0.2.2"}
    assert "evil" not in str(found) and str(found["gpu-01"]["ansible_port"]) == "2222"
    assert not mark.exists()


def test_a_pipe_is_no_list(tmp_path):
    """Something that is no file is told, not waited for."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="is no file"):
        hosts.read(tmp_path / "pipe")
