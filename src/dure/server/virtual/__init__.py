"""Virtual clusters at the centre: documents, nodes made of pools, namespaces in members."""
