"""What `auditor quick` sends to a server beside the probe file: Python >= 3.8, standard library, nothing installed.

The modules of `plugins/module_utils` that the Ansible module runs there travel along, under the same names.
Nothing in this folder is imported by the controller.
"""
