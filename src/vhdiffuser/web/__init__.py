"""The page and its small server: an application made by `vhdiffuser.web.app.create_app`."""
